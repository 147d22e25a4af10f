// A vocabulary small enough to read: ids 0..255 are the bytes, then a few words, and one end token.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/tokenizers/tokenizer.hpp"

namespace troupe::testing {

class fake_vocabulary : public model::tokenizer {
 public:
    static constexpr model::token_id end = 256;
    fake_vocabulary() {
        for (int i = 0; i < 256; ++i) pieces_.emplace_back(1, static_cast<char>(i));
        pieces_.emplace_back();  // the end token shows nothing
    }
    std::int32_t n_tokens() const override { return static_cast<std::int32_t>(pieces_.size()); }
    std::string_view type_name() const override { return "bpe"; }
    std::string_view pre_name() const override { return "default"; }
    model::token_kind kind(model::token_id id) const override {
        return id == end ? model::token_kind::control : model::token_kind::normal;
    }
    std::string_view piece(model::token_id id, bool) const override { return pieces_.at(static_cast<std::size_t>(id)); }
    model::token_id bos() const override { return -1; }
    model::token_id eos() const override { return end; }
    bool add_bos() const override { return false; }
    bool add_eos() const override { return false; }
    bool is_end(model::token_id id) const override { return id == end; }
    std::span<const model::token_id> end_tokens() const override { return ends_; }
    std::vector<model::token_id> encode(std::string_view text, bool, bool) const override {
        std::vector<model::token_id> ids;
        for (char c : text) ids.push_back(static_cast<unsigned char>(c));
        return ids;
    }
    std::vector<model::token_id> encode(std::span<const model::text_part> parts) const override {
        std::vector<model::token_id> ids;
        for (const auto& p : parts) {
            const auto more = encode(p.text, false, false);
            ids.insert(ids.end(), more.begin(), more.end());
        }
        return ids;
    }
    /// Adds a word of several bytes; its id.
    model::token_id add(std::string word) {
        pieces_.push_back(std::move(word));
        return n_tokens() - 1;
    }

 private:
    std::vector<std::string> pieces_;
    std::vector<model::token_id> ends_{end};
};

}  // namespace troupe::testing
