// What both tokenizer families share: answers about the vocabulary, and cutting special tokens out of text before the
// family sees the rest. Internal to tokenizers/.
#pragma once

#include <string>

#include "model/tokenizers/merge.hpp"
#include "model/tokenizers/piece_cache.hpp"
#include "model/tokenizers/special_matcher.hpp"
#include "model/tokenizers/vocabulary.hpp"

namespace troupe::model {

/// What one encode() keeps from fragment to fragment.
struct encode_scratch {
    explicit encode_scratch(std::size_t text_bytes) : cache(text_bytes) {}
    piece_cache cache;
    merge_scratch merge;
    std::vector<std::uint32_t> ends, spare_ends;
    std::string text;
};

class tokenizer_base : public tokenizer {
 public:
    std::int32_t n_tokens() const final { return words_.size(); }
    std::string_view pre_name() const final { return pre_name_; }
    token_kind kind(token_id id) const final;
    std::string_view piece(token_id id, bool show_control) const final;
    token_id bos() const final { return words_.bos; }
    token_id eos() const final { return words_.eos; }
    bool add_bos() const final { return words_.add_bos; }
    bool add_eos() const final { return words_.add_eos; }
    bool is_end(token_id id) const final;
    std::span<const token_id> end_tokens() const final { return words_.end_tokens; }
    std::vector<token_id> encode(std::string_view text, bool parse_special, bool add_special) const final;
    std::vector<token_id> encode(std::span<const text_part> parts) const final;

 protected:
    tokenizer_base(vocabulary words, std::string pre_name);

    struct fragment_place {
        bool after_special;  ///< it is the first text, or follows a special token
        bool first;          ///< nothing is before it
    };
    /// Appends the ids of well-formed text (not empty) that holds no special token.
    virtual void encode_fragment(std::string_view text, const fragment_place& place, encode_scratch& scratch,
        std::vector<token_id>& out) const = 0;

    const vocabulary& words() const { return words_; }
    /// White space behind these tokens belongs to them (Phi-3).
    void set_strips_right(std::vector<bool> tokens) { strips_right_ = std::move(tokens); }

 public:
    /// White space around the tokens the file lists belongs to them. While loading.
    result<void> load_strips(const model_file& file);

 private:
    void encode_stretches(
        std::string_view text, std::span<const text_stretch> stretches, std::vector<token_id>& out) const;

    vocabulary words_;
    std::string pre_name_;
    special_matcher matcher_;
    std::vector<bool> strips_left_, strips_right_;  ///< empty: none
};

}  // namespace troupe::model
