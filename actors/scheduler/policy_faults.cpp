// The executor going and coming: everything that ran goes back to its place with what was accepted; repeated deaths
// find their culprit.
#include <algorithm>

#include "actors/scheduler/policy.hpp"
#include "core/check.hpp"

namespace troupe::actors {
namespace {

constexpr int deaths_to_poison = 3, deaths_alone_to_poison = 2;

bool from_outside(const std::string& reason) { return reason.starts_with("killed") || reason.starts_with("operator"); }

}  // namespace

void scheduler_policy::executor_up(const executor_info& info, steady_time now) {
    if (info_) executor_down(epoch_, "replaced", 0, now);
    CHECK(info.max_rows > 0 && info.n_ctx > 0 && !info.group_window.empty(),
        "an executor that says nothing about itself");
    std::uint64_t segments = info.max_segments;
    if (settings_.kv_memory > 0)
        segments = std::min(segments, std::max<std::uint64_t>(1, settings_.kv_memory / info.segment_bytes));
    epoch_ = info.epoch;
    info_ = info;
    kv_.emplace(layout_of(info), segments);
    kv_->set_holders([this] { return block_holders(); });
    disk_ = disk_index(kv_->layout(), info.kv_disk, info.images);
    info_->images.clear();
    drop_images(disk_.make_room(0));  // --kv-disk may have been more
    counters_.images_refused += info.images_refused;
    sequence_limit_ = std::min<std::int64_t>(info.n_ctx, kv_->longest_sequence());
    for (entry* e : waiting_)
        if (e->ran) e->ready_since = now;
}

void scheduler_policy::executor_down(
    std::uint64_t epoch, const std::string& reason, std::uint64_t plan_started, steady_time now) {
    if (!info_ || epoch < epoch_) return;
    const bool asleep = reason == "unloaded";
    if (!asleep) ++counters_.executor_deaths;
    if (reason != "replaced" && !asleep && !from_outside(reason)) suspect_started(plan_started);
    in_flight_.clear();
    closes_.clear();
    cancels_.clear();
    const auto ran = std::exchange(running_, {});
    for (entry* e : ran) interrupt(*e, now);
    kv_.reset();
    info_.reset();
    forget_transfers();
    sequence_limit_ = 0;
    retry_at_.reset();
    std::vector<entry*> culprits;
    for (entry* e : waiting_)
        if (poisoned(*e)) culprits.push_back(e);
    for (entry* e : culprits) {
        ++counters_.poisoned;
        fail(*e, errc::executor_poisoned, "the executor died each time it computed this request", now);
    }
}

void scheduler_policy::interrupt(entry& e, steady_time now) {
    e.k = 0;
    e.kv = {};
    shares_.end(e.request.client_key, e.request.session, now);
    if (e.is == phase::ending) return forget(e);
    if (!e.stalled) e.stalled_by_death = true;
    stall(e, "executor_restart", now);
    requeue(e, now);
}

/// Suspects are the rows of the plan that had started, not everything in flight. A request at fault dies of the same
/// tokens each time, however its prompt is cut, or a step or two further on.
void scheduler_policy::suspect_started(std::uint64_t plan_started) {
    const auto plan =
        std::find_if(in_flight_.begin(), in_flight_.end(), [&](const sent_plan& p) { return p.id == plan_started; });
    if (plan == in_flight_.end()) return;
    for (const sent_row& row : plan->rows) {
        entry* e = find(row.id);
        if (!e || e->seq != row.seq || e->is == phase::ending) continue;
        const std::int64_t begin = std::max<std::int64_t>(e->death_begin, row.pos);
        const std::int64_t end = std::min<std::int64_t>(e->death_end, row.pos + row.n);
        if (begin >= end + tokens_to_clear) e->deaths = e->deaths_alone = 0;  // it died of something else this time
        const bool same = e->deaths > 0 && begin < end;
        e->death_begin = same ? begin : row.pos;
        e->death_end = same ? end : row.pos + row.n;
        ++e->deaths;
        e->deaths_alone += plan->rows.size() == 1;
    }
}

bool scheduler_policy::poisoned(const entry& e) const {
    return e.deaths >= deaths_to_poison && e.deaths_alone >= deaths_alone_to_poison;
}

}  // namespace troupe::actors
