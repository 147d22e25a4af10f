// Finds the tokens that are cut out of raw text before anything else: user-defined ones everywhere, control tokens only
// where the text is trusted. Longest string first over the whole text, then the lower id, then left to right.
// Internal to tokenizers/.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/tokenizers/flat_map.hpp"

namespace troupe::model {

struct special_token {
    std::string_view text;
    std::int32_t id = -1;
    bool trusted_only = false;  ///< control token
};

struct special_match {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    std::int32_t id = -1;
};

/// A stretch of text that control tokens may (trusted) or may not lie in; stretches follow each other without gaps and
/// neighbours differ.
struct text_stretch {
    std::uint32_t end = 0;
    bool trusted = false;
};

class special_matcher {
 public:
    special_matcher() = default;
    /// Empty texts are left out. The views must outlive the matcher.
    explicit special_matcher(std::span<const special_token> tokens);

    /// Matches in text order. Time is linear in the text for a given vocabulary (times the log of the matches).
    std::vector<special_match> find(std::string_view text, std::span<const text_stretch> stretches) const;

 private:
    struct candidate {
        std::uint32_t position;
        std::int32_t id;
    };
    struct scan;

    /// The longest token at `position` that is shorter than `below` and allowed there; id -1: none.
    struct found_token {
        std::int32_t id = -1;
        std::uint32_t length = 0;
    };
    found_token longest(
        std::string_view text, std::size_t position, std::size_t trusted_end, std::uint32_t below) const;

    struct node {
        std::int32_t id = -1;  ///< token that ends here
        bool trusted_only = false;
    };
    std::vector<node> nodes_;
    std::array<std::uint32_t, 256> roots_{};  ///< node after the first byte; 0: no token begins so
    flat_map<std::uint32_t> edges_;           ///< (node << 8 | byte) -> node
    std::uint32_t longest_ = 0;               ///< bytes of the longest token
};

}  // namespace troupe::model
