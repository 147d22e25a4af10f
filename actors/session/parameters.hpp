// From what a request, a session and the configuration say to what the scheduler gets: one generation's resolved
// parameters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/plan.hpp"
#include "core/requests.hpp"
#include "core/result.hpp"
#include "model/tokenizers/tokenizer.hpp"

namespace troupe::actors {

struct resolved_params {
    sequence_params sequence;
    std::vector<std::string> stop;
};

struct resolve_input {
    generation_params request, session, defaults;  ///< request > session > defaults > built in
    std::int64_t n_prompt = 0, n_ctx = 0;
    std::uint64_t drawn_seed = 0;  ///< used if no level gives a seed >= 0
    std::int32_t choice = 0;
    bool echo = false;                     ///< max_tokens 0 is allowed; log-probabilities of the prompt too
    bool prompt_only = false;              ///< max_tokens 0 is allowed
    pooling pool = pooling::none;          ///< not none: the prompt is embedded, nothing is generated
    std::string prompt_name = "messages";  ///< param of errors about the prompt
};

/// errc::context_length_exceeded with the numbers if not even one token fits; invalid_request for ids the vocabulary
/// does not have. max_tokens absent or beyond the context: to the end of the context. With DRY, its sequence breakers
/// become token sequences, for which the whole vocabulary is read.
result<resolved_params> resolve(const resolve_input& in, const model::tokenizer& vocabulary);

/// For the generation row of the store. Exact: a resumed answer draws the same numbers.
std::string to_json(const resolved_params& p);
result<resolved_params> resolved_from_json(const std::string& text);

/// The first line of a message, shortened to about 60 characters at a word: the title of a session.
std::string title_from(const std::string& content);

}  // namespace troupe::actors
