// Memory given back while serving, and what the compactor is told about it.
#include "actors/scheduler/policy.hpp"

namespace troupe::actors {

void scheduler_policy::give_back(const memory_order& order, steady_time now) {
    if (!kv_) return;
    giving_ = order;
    advance_giving(now);
}

/// Everybody whose block tables must follow a block that moves.
std::vector<sequence_kv*> scheduler_policy::block_holders() {
    std::vector<sequence_kv*> holders;
    for (entry* e : running_) holders.push_back(&e->kv);
    for (const auto& [id, t] : transfers_) holders.push_back(&t->kv);
    return holders;
}

/// Tables are taken when all rows stand: making room for a later row may move blocks of an earlier one.
void scheduler_policy::take_tables(plan& p, const sent_plan& sent) {
    for (std::size_t i = 0; i < p.rows.size(); ++i) p.rows[i].tables = kv_->take_deltas(find(sent.rows[i].id)->kv);
}

kv_usage scheduler_policy::usage() const {
    kv_usage u;
    u.idle = idle();
    if (!kv_) return u;
    const block_pool& pool = kv_->pool();
    u.segment_bytes = kv_->layout().segment_bytes;
    u.segments_committed = pool.committed_segments();
    u.segments_max = pool.max_segments();
    u.segments_needed = pool.needed_segments();
    u.coldest = kv_->cache().coldest();
    for (std::size_t g = 0; g < pool.n_groups(); ++g) {
        u.owned += pool.counts(g).owned;
        u.cached += pool.counts(g).cached;
        u.free += pool.counts(g).free;
    }
    // What is on its way to the disk is the cache's.
    for (const auto& [id, t] : transfers_) {
        if (t->load) continue;
        for (std::size_t g = 0; g < t->kv.groups.size(); ++g)
            for (const block_id b : t->kv.groups[g].blocks) {
                const bool only = b != no_block && pool.refs(g, b) == 2 && pool.holder(g, b) != nullptr;
                u.owned -= only;
                u.cached += only;
            }
    }
    // A segment that belongs to nobody could hold this many blocks of the first group.
    u.unallocated = pool.unallocated_segments() * pool.blocks_per_segment(0);
    return u;
}

}  // namespace troupe::actors
