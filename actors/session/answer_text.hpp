// Tokens -> the text of an answer: whole code points, stop strings cut off, log-probabilities beside the bytes they
// stand for.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/generation.hpp"
#include "actors/session/stop_strings.hpp"
#include "core/events.hpp"
#include "model/tokenizers/tokenizer.hpp"

namespace troupe::actors {

class answer_text {
 public:
    struct piece {
        std::uint64_t offset = 0;  ///< bytes of the message before it
        std::string text;
        std::vector<token_logprobs> logprobs;
        std::vector<std::int32_t> ids;  ///< of the tokens fed, if wanted
        bool empty() const { return text.empty() && logprobs.empty() && ids.empty(); }
    };

    /// `offset`: bytes of text that stand before the answer (echo). Keeps log-probabilities if `logprobs`.
    answer_text(std::shared_ptr<const model::tokenizer> vocabulary, std::vector<std::string> stops, bool logprobs,
        std::uint64_t offset = 0);

    void keep_ids() { want_ids_ = true; }

    /// Text that became certain by these tokens. Tokens after the one that completed a stop string are ignored.
    piece feed(std::span<const accepted_token> tokens);
    /// The answer is over: what was held back, unless a stop string cut it off. `end_token`, if there was one, adds no
    /// text, but its log-probabilities.
    piece finish(const std::optional<accepted_token>& end_token = {});
    /// Log-probabilities of a token as clients get them.
    static token_logprobs entry(
        const model::tokenizer& vocabulary, token_id id, float logprob, const std::vector<logprob_entry>& top);

    /// Tokens accepted up to and with the one that completed a stop string.
    std::optional<std::int64_t> stopped_at() const { return stopped_at_; }
    std::int64_t n_tokens() const { return n_tokens_; }
    const std::string& stop_string() const { return stops_.which(); }

 private:
    piece take(std::string text, bool all);
    std::shared_ptr<const model::tokenizer> vocabulary_;
    model::utf8_stream utf8_;
    stop_strings stops_;
    bool want_logprobs_, want_ids_ = false;
    std::uint64_t certain_ = 0;   // bytes of text that left utf8_, stop strings included
    std::uint64_t released_ = 0;  // bytes given out
    std::uint64_t offset_;
    std::int64_t n_tokens_ = 0;
    std::optional<std::int64_t> stopped_at_;
    struct waiting {
        std::uint64_t needs;  // released_ at which the token's bytes are out
        token_logprobs entry;
    };
    std::deque<waiting> waiting_;
};

}  // namespace troupe::actors
