// The scheduler's part of GET /admin/state.
#include <boost/json.hpp>

#include "actors/scheduler/policy.hpp"

namespace troupe::actors {
namespace {

namespace json = boost::json;

const char* name(phase p) {
    switch (p) {
    case phase::queued:
        return "queued";
    case phase::prefill:
        return "prefill";
    case phase::decode:
        return "decode";
    case phase::ending:
        return "ending";
    case phase::evicting:
        return "evicting";
    }
    return "";
}

json::object describe(const entry& e, steady_time now) {
    json::object o;
    o["generation"] = e.request.id;
    o["state"] = name(e.is);
    o["prompt_tokens"] = e.n_prompt;
    o["generated_tokens"] = e.n_acc();
    o["cached_tokens"] = e.cached;
    o["age_ms"] = to_ms(now - e.submitted);
    if (e.preemptions > 0) o["preemptions"] = e.preemptions;
    if (e.deaths > 0) o["executor_deaths"] = e.deaths;
    if (e.is == phase::queued) return o;
    o["sequence"] = e.seq;
    o["computed_tokens"] = e.kv_ok;
    o["plans_in_flight"] = e.k;
    return o;
}

json::object describe(const kv_manager& kv) {
    json::object o;
    const block_pool& pool = kv.pool();
    o["segment_bytes"] = kv.layout().segment_bytes;
    o["segments"] = {{"committed", pool.committed_segments()}, {"empty", pool.empty_segments()},
        {"needed", pool.needed_segments()}, {"unallocated", pool.unallocated_segments()}, {"max", pool.max_segments()}};
    json::array groups;
    for (std::size_t g = 0; g < pool.n_groups(); ++g) {
        const auto& counts = pool.counts(g);
        groups.push_back({{"window", kv.layout().groups[g].window}, {"block_bytes", kv.layout().groups[g].block_bytes},
            {"owned", counts.owned}, {"cached", counts.cached}, {"free", counts.free}});
    }
    o["groups"] = std::move(groups);
    o["prefix_cache_nodes"] = kv.cache().n_nodes();
    return o;
}

json::object describe(const scheduler_counters& c) {
    return {{"submitted", c.submitted}, {"refused", c.refused}, {"stopped", c.stopped}, {"length", c.length},
        {"cancelled", c.cancelled}, {"failed", c.failed}, {"plans", c.plans}, {"results", c.results},
        {"results_dropped", c.results_dropped}, {"rows_dropped", c.rows_dropped}, {"rows_void", c.rows_void},
        {"tokens_wasted", c.tokens_wasted}, {"preemptions", c.preemptions}, {"resumed", c.resumed},
        {"executor_deaths", c.executor_deaths}, {"poisoned", c.poisoned}, {"non_finite", c.non_finite},
        {"prompt_tokens", c.prompt_tokens}, {"generated_tokens", c.generated_tokens},
        {"cache_hit_tokens", c.cache_hit_tokens}, {"cache_miss_tokens", c.cache_miss_tokens},
        {"commits_failed", c.commits_failed}, {"segments_released", c.segments_released},
        {"blocks_moved", c.blocks_moved}, {"images_saved", c.images_saved}, {"images_loaded", c.images_loaded},
        {"images_refused", c.images_refused}, {"images_failed", c.images_failed}, {"images_dropped", c.images_dropped},
        {"tokens_loaded", c.tokens_loaded}, {"prefill_shared", c.prefill_shared}};
}

}  // namespace

std::string state_json(const scheduler_policy& policy, steady_time now) {
    json::object o;
    o["executor_up"] = policy.up();
    json::array queue, running, stalled;
    for (const entry* e : policy.queue_order(now)) queue.push_back(describe(*e, now));
    for (const auto& [id, e] : policy.entries()) {
        if (e->is != phase::queued)
            running.push_back(describe(*e, now));
        else if (e->ran)
            stalled.push_back(describe(*e, now));
    }
    o["queue"] = std::move(queue);
    o["running"] = std::move(running);
    o["stalled"] = std::move(stalled);
    o["plans_in_flight"] = policy.n_in_flight();
    if (policy.info()) {
        o["epoch"] = policy.info()->epoch;
        o["sequence_limit"] = policy.sequence_limit();
        o["kv"] = describe(*policy.kv());
        const kv_usage u = policy.usage();
        const auto& disk = policy.disk();
        o["tiers"] = {{"device", {{"bytes", static_cast<std::uint64_t>(u.segments_committed) * u.segment_bytes},
                                     {"budget", static_cast<std::uint64_t>(u.segments_max) * u.segment_bytes}}},
            {"host", {{"bytes", 0}, {"budget", 0}}},
            {"disk", {{"bytes", disk.bytes()}, {"budget", disk.room()}, {"images", disk.size()}}}};
    }
    o["decode_step_ms"] = policy.costs().decode_ms();
    o["counters"] = describe(policy.counters());
    return json::serialize(o);
}

}  // namespace troupe::actors
