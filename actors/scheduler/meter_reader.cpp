#include "actors/scheduler/meter_reader.hpp"

#include <algorithm>

namespace troupe::actors {
namespace {

constexpr double seconds = 1e-3;  // of milliseconds

}  // namespace

void meter_reader::read(scheduler_policy& policy) {
    const auto seen = policy.take_observations();
    if (!meters_) return;
    metrics& m = *meters_;
    for (const double ms : seen.first_token_ms) m.time_to_first_token.Observe(ms * seconds);
    for (const double ms : seen.inter_token_ms) m.inter_token.Observe(ms * seconds);
    for (const auto& r : seen.requests) {
        m.e2e_seconds.Observe(r.ms * seconds);
        m.prefill_seconds.Observe(r.timings.prompt_ms * seconds);
        m.decode_seconds.Observe(r.timings.predicted_ms * seconds);
        m.inference_seconds.Observe((r.timings.prompt_ms + r.timings.predicted_ms) * seconds);
        m.request_prompt_tokens.Observe(static_cast<double>(r.usage.prompt_tokens));
        m.request_generated_tokens.Observe(static_cast<double>(r.usage.completion_tokens));
    }
    for (const double ms : seen.queue_ms) m.queue_seconds.Observe(ms * seconds);
    for (const double ms : seen.recovery_ms) m.recovery_seconds.Observe(ms * seconds);
    for (const auto& outcome : seen.outcomes) m.request_finished(outcome);
    for (const auto& s : seen.steps)
        m.step(s.decode && s.prompt ? "mixed" : s.decode ? "decode" : "prefill", s.ms * seconds);

    const scheduler_counters& now = policy.counters();
    const auto more = [&](auto scheduler_counters::*field) { return static_cast<double>(now.*field - last_.*field); };
    m.requests_resumed.Increment(more(&scheduler_counters::resumed));
    m.requests_lost.Increment(more(&scheduler_counters::poisoned));
    m.prompt_tokens.Increment(more(&scheduler_counters::prompt_tokens));
    m.generated_tokens.Increment(more(&scheduler_counters::generated_tokens));
    m.prompt_seconds.Increment(more(&scheduler_counters::prompt_ms) * seconds);
    m.generated_seconds.Increment(more(&scheduler_counters::generated_ms) * seconds);
    m.preemptions.Increment(more(&scheduler_counters::preemptions));
    m.prefix_cache(static_cast<std::int64_t>(more(&scheduler_counters::cache_hit_tokens)),
        static_cast<std::int64_t>(more(&scheduler_counters::cache_miss_tokens)));
    const auto images = [&](const char* event, auto scheduler_counters::*field) {
        if (const double n = more(field); n > 0) m.kv_images(event, n);
    };
    images("saved", &scheduler_counters::images_saved);
    images("loaded", &scheduler_counters::images_loaded);
    images("refused", &scheduler_counters::images_refused);
    images("failed", &scheduler_counters::images_failed);
    images("dropped", &scheduler_counters::images_dropped);
    m.kv_blocks_compacted.Increment(more(&scheduler_counters::blocks_moved));
    last_ = now;

    m.queue_depth.Set(static_cast<double>(policy.n_waiting()));
    m.running.Set(static_cast<double>(policy.n_running()));
    std::int64_t all = 0;
    for (const auto& [id, e] : policy.entries()) {
        if (!e->active()) continue;
        all += e->known();
        longest_ = std::max(longest_, e->known());
    }
    m.sequence_tokens.Set(static_cast<double>(all));
    m.longest_sequence_tokens.Set(static_cast<double>(longest_));
    const kv_usage u = policy.usage();
    m.kv_blocks(u.owned, u.cached, u.free, u.unallocated);
    m.kv_segments.Set(static_cast<double>(u.segments_committed));
    m.kv_bytes("disk", static_cast<double>(policy.disk().bytes()));
    m.kv_bytes("device", static_cast<double>(u.segments_committed) * static_cast<double>(u.segment_bytes));
}

}  // namespace troupe::actors
