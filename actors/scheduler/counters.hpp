// What the scheduler counts; the actor turns it into metrics and into the state text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/events.hpp"

namespace troupe::actors {

struct scheduler_counters {
    std::uint64_t submitted = 0, refused = 0, stopped = 0, length = 0, cancelled = 0, failed = 0;
    std::uint64_t plans = 0, results = 0, results_dropped = 0, rows_dropped = 0, rows_void = 0, tokens_wasted = 0;
    std::uint64_t preemptions = 0, resumed = 0, executor_deaths = 0, poisoned = 0, non_finite = 0;
    std::uint64_t prompt_tokens = 0, generated_tokens = 0, cache_hit_tokens = 0, cache_miss_tokens = 0;
    std::uint64_t commits_failed = 0, segments_released = 0, blocks_moved = 0, prefill_shared = 0;
    std::uint64_t images_saved = 0, images_loaded = 0, images_refused = 0, images_failed = 0, images_dropped = 0;
    std::uint64_t tokens_loaded = 0;
    double prompt_ms = 0, generated_ms = 0;
};

/// Samples since they were taken last.
struct scheduler_observations {
    struct step {
        bool decode = false, prompt = false;
        double ms = 0;
    };
    struct request {
        double ms = 0;  ///< from its arrival to its end
        usage_counts usage;
        timing_counts timings;
    };
    std::vector<request> requests;
    std::vector<double> first_token_ms, inter_token_ms, queue_ms;
    std::vector<double> recovery_ms;  ///< from an executor's death to the next token of a sequence it stopped
    std::vector<step> steps;
    std::vector<std::string> outcomes;  ///< stop, length, cancelled, or an error's wire name
};

}  // namespace troupe::actors
