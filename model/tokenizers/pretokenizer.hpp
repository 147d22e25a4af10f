// Splits text into the pieces inside which byte-level BPE may merge. Hand-written equivalents of the models' regular
// expressions; every rule is linear in the text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::model {

/// Length in bytes of the rule's match at the start of `text` (not empty, well-formed UTF-8); 0: no match there.
using split_rule = std::size_t (*)(std::string_view text);

struct pretokenizer {
    std::string_view name;              ///< as tokenizer.ggml.pre says it
    std::span<const split_rule> rules;  ///< applied one after the other, each to the pieces the last one left
    bool ignore_merges = false;         ///< a whole piece that is a token is taken as it is
    bool adds_bos = false;              ///< when the file does not say

    /// nullptr: this build does not know it.
    static const pretokenizer* find(std::string_view name);
    static std::string known_names();

    /// Ends of the pieces of `text`, ascending, the last equal to text.size(). Empty text has none.
    /// `ends` and `scratch` are overwritten.
    void split(std::string_view text, std::vector<std::uint32_t>& ends, std::vector<std::uint32_t>& scratch) const;
};

}  // namespace troupe::model
