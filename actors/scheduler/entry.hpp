// One generation inside the scheduler: its request, its state (design section 5), and what it has been through.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/generation.hpp"
#include "actors/plan.hpp"
#include "actors/scheduler/kv_manager.hpp"
#include "core/clock.hpp"

namespace troupe::actors {

/// submit_generation without its owner.
struct generation_request {
    generation_id id = 0;
    std::string client_key, session;
    std::shared_ptr<const std::vector<token_id>> prompt;
    std::vector<token_id> accepted;
    /// max_tokens: negative = to the end of the context; 0 = nothing is generated (with prompt_logprobs: the prompt is
    /// scored).
    sequence_params params;
    float mu = 0;  ///< mirostat's, after the last accepted token
    bool batch_priority = false;
    bool watch_text = false;
    bool resumed = false;  ///< it was taken once already: not refused for what happens now
    bool keep = false;  ///< of a stored session: its KV may be kept on disk
};

enum class phase : std::uint8_t { queued, prefill, decode, ending, evicting };

/// A request whose executors die this soon after its last death is not cleared by the token or two it made in between.
inline constexpr std::int64_t tokens_to_clear = 4;

struct entry {
    generation_request request;
    std::uint64_t arrival = 0;  ///< its place: kept over preemption and restart
    phase is = phase::queued;
    sequence_id seq = 0;           ///< a new one each time it starts to run
    bool opened = false;           ///< the executor knows seq
    std::vector<token_id> tokens;  ///< prompt + accepted
    std::int64_t n_prompt = 0;
    std::int64_t limit = 0;     ///< most tokens it may have
    std::int64_t target = 0;    ///< prefill ends here: tokens known when it started to run
    std::int64_t n_sub = 0;     ///< next position to submit
    std::int64_t plan_pos = 0;  ///< n_sub when the plan being made was begun: its rows look back from here
    std::int64_t kv_ok = 0;     ///< positions below are computed and, if a later row was sampled, finite
    int k = 0;                  ///< plans in flight with a row of it
    bool sampled = false;       ///< a sampled row of this run was finite: its blocks may enter the cache
    bool publish = true;
    sequence_kv kv;
    std::string prompt_scores;  ///< packed, of the rows so far
    std::optional<accepted_token> end_token;

    std::int64_t cached = 0;  ///< prompt tokens the first run did not compute
    steady_time submitted{}, ready_since{};
    std::optional<steady_time> started, first_token, last_token, finished, stalled;
    bool stalled_by_death = false;
    bool ran = false;           ///< has been running: it is not a waiting request any more
    std::string numerics_id;    ///< of the incarnation that made its last token
    std::int64_t position = 0;  ///< as told last
    std::optional<steady_time> told_position, told_progress, unschedulable;
    int preemptions = 0, voids = 0;
    bool waited_for_twin = false;
    std::uint64_t load = 0;   ///< job that brings a part of its prompt from the disk; it waits for it
    bool load_tried = false;  ///< once an executor's life

    /// Executor deaths in steps that computed the stretch [death_begin, death_end) of it, or what follows at once; over
    /// when tokens_to_clear more than that stretch were computed.
    int deaths = 0, deaths_alone = 0;
    std::int64_t death_begin = 0, death_end = 0;

    std::int64_t n_acc() const { return static_cast<std::int64_t>(tokens.size()) - n_prompt; }
    std::int64_t known() const { return static_cast<std::int64_t>(tokens.size()); }
    bool active() const { return is == phase::prefill || is == phase::decode; }
};

}  // namespace troupe::actors
