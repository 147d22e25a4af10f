// One question and the only right answer to it: what the model says after these tokens, as tokens and as text.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fake_executor.hpp"
#include "model/tokenizers/tokenizer.hpp"

namespace troupe::actors::sim {

struct turn {
    std::vector<token_id> prompt;
    std::int64_t max_tokens = 0;
    std::string stop;  ///< a stop string; empty: none
    bool batch = false, killer = false, not_finite = false;
    // -- the answer
    std::vector<token_id> tokens;  ///< those that are accepted, without an end token
    std::string text;              ///< up to the stop string
    std::int64_t n_tokens = 0;     ///< up to and with the one that completes the stop string
    bool full = false;             ///< it ends because max_tokens were made
};

/// Three small letters a token, so that stop strings may lie across tokens.
class sim_vocabulary : public model::tokenizer {
 public:
    sim_vocabulary();
    std::int32_t n_tokens() const override { return vocabulary; }
    std::string_view type_name() const override { return "bpe"; }
    std::string_view pre_name() const override { return "default"; }
    model::token_kind kind(token_id id) const override {
        return id == end_token ? model::token_kind::control : model::token_kind::normal;
    }
    std::string_view piece(token_id id, bool) const override { return pieces_.at(static_cast<std::size_t>(id)); }
    token_id bos() const override { return -1; }
    token_id eos() const override { return end_token; }
    bool add_bos() const override { return false; }
    bool add_eos() const override { return false; }
    bool is_end(token_id id) const override { return id == end_token; }
    std::span<const token_id> end_tokens() const override { return ends_; }
    std::vector<token_id> encode(std::string_view, bool, bool) const override { return {}; }
    std::vector<token_id> encode(std::span<const model::text_part>) const override { return {}; }

 private:
    std::vector<std::string> pieces_;
    std::array<token_id, 1> ends_{end_token};
};
std::shared_ptr<const sim_vocabulary> the_vocabulary();

/// Fills in the answer.
void solve(turn& t);

}  // namespace troupe::actors::sim
