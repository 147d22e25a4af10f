// What the scheduler tells the owner of a generation: plain structs, no CAF, so that the decision code can use them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/plan.hpp"
#include "core/error.hpp"
#include "core/events.hpp"
#include "model/tools/call_format.hpp"

namespace troupe::actors {

using generation_id = std::uint64_t;  ///< made by the gateway, unique in this process

/// How an answer that may call tools is written and read.
struct call_rules {
    model::call_style style = model::call_style::unknown;  ///< unknown: no tools
    std::vector<std::string> names;
    std::string grammar;
};

struct generation_position {
    generation_id id = 0;
    std::int64_t position = 0;
    std::optional<std::int64_t> eta_ms;
};
struct prompt_progress {
    generation_id id = 0;
    std::int64_t processed = 0, total = 0, cached = 0;
};
struct accepted_token {
    token_id id = 0;
    float logprob = 0;
    std::vector<logprob_entry> top;
};
/// Tokens n_before, n_before + 1, ... of the generation. An end token is not among them.
struct generation_tokens {
    generation_id id = 0;
    std::int64_t n_before = 0;
    std::vector<accepted_token> tokens;
    std::vector<token_score> prompt_scores;  ///< with the first tokens, if asked for
    std::vector<float> embedding;            ///< of an embedded sequence, instead of tokens
    float mu = 0;                            ///< mirostat's, after the last of them
};
struct generation_stalled {
    generation_id id = 0;
    std::string reason;
};  ///< executor_restart, preempted, memory
struct generation_moving {
    generation_id id = 0;
    std::int64_t after_ms = 0;
    bool numerics_changed = false;
};
enum class finish : std::uint8_t { stop, length, cancelled, failed };
struct generation_finished {
    generation_id id = 0;
    finish why = finish::stop;
    error err;                  ///< if failed
    std::int64_t n_tokens = 0;  ///< accepted tokens that count (an end token is not one)
    usage_counts usage;
    timing_counts timings;
    std::optional<accepted_token> end_token;  ///< the end token that stopped it
};

}  // namespace troupe::actors
