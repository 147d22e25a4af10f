// Segments and blocks: free lists, reference counts and the counts by state, kept in step with each other.
#include "actors/scheduler/block_pool.hpp"

#include <utility>

#include "core/check.hpp"

namespace troupe::actors {

block_pool::block_pool(const model::kv_layout& layout, std::uint64_t max_segments) : segments_(max_segments) {
    for (const auto& g : layout.groups) {
        CHECK(g.blocks_per_segment > 0);
        groups_.push_back({g.blocks_per_segment});
    }
    for (std::uint64_t i = 0; i < max_segments; ++i) unallocated_.insert(unallocated_.end(), i);
}

block_pool::block& block_pool::at(std::size_t group, block_id b) {
    return const_cast<block&>(static_cast<const block_pool&>(*this).at(group, b));
}

const block_pool::block& block_pool::at(std::size_t group, block_id b) const {
    const std::uint64_t index = b / groups_[group].per_segment;
    CHECK(b != no_block && index < segments_.size(), "no such block");
    const segment& s = segments_[index];
    CHECK(s.is == state::committed && s.group == group, "block of another group or of no segment");
    return s.blocks[b % groups_[group].per_segment];
}

/// The count a used block stands in.
std::int64_t& block_pool::bucket(std::size_t group, const block& b) {
    auto& counts = groups_[group].counts;
    return b.cached && b.refs == 1 ? counts.cached : counts.owned;
}

std::optional<block_id> block_pool::alloc(std::size_t group_index) {
    group& g = groups_[group_index];
    auto& from = g.partly_free.empty() ? g.empty : g.partly_free;
    if (from.empty()) return std::nullopt;
    const std::uint64_t index = *from.begin();
    segment& s = segments_[index];
    const std::uint32_t slot = s.free_slots.back();
    s.free_slots.pop_back();
    g.empty.erase(index);
    if (s.free_slots.empty())
        g.partly_free.erase(index);
    else
        g.partly_free.insert(index);
    s.blocks[slot] = {1, 0, false, nullptr};
    --g.counts.free;
    ++g.counts.owned;
    return static_cast<block_id>(index * g.per_segment + slot);
}

void block_pool::ref(std::size_t group, block_id b) {
    block& x = at(group, b);
    CHECK(x.refs > 0, "reference to a free block");
    --bucket(group, x);
    ++x.refs;
    ++bucket(group, x);
}

void block_pool::unref(std::size_t group, block_id b) {
    block& x = at(group, b);
    CHECK(x.refs > (x.cached ? 1u : 0u), "a sequence gave back what it did not hold");
    drop(group, b);
}

void block_pool::cache_ref(std::size_t group, block_id b, void* holder) {
    block& x = at(group, b);
    CHECK(x.refs > 0 && !x.cached, "cached twice, or free");
    --bucket(group, x);
    ++x.refs;
    x.cached = true;
    x.holder = holder;
    ++bucket(group, x);
}

void block_pool::cache_unref(std::size_t group, block_id b) {
    block& x = at(group, b);
    CHECK(x.cached, "not in the cache");
    --bucket(group, x);
    x.cached = false;
    x.holder = nullptr;
    ++groups_[group].counts.owned;  // what drop takes from
    drop(group, b);
}

void block_pool::drop(std::size_t group_index, block_id b) {
    group& g = groups_[group_index];
    block& x = at(group_index, b);
    --bucket(group_index, x);
    if (--x.refs > 0) {
        ++bucket(group_index, x);
        return;
    }
    CHECK(x.fixed == 0, "freed while it is read or written beside the steps");
    ++g.counts.free;
    free_slot(g, b);
}

void block_pool::free_slot(group& g, block_id b) {
    const std::uint64_t index = b / g.per_segment;
    segment& s = segments_[index];
    s.free_slots.push_back(static_cast<std::uint32_t>(b % g.per_segment));
    if (s.used() == 0) {
        g.partly_free.erase(index);
        g.empty.insert(index);
    } else {
        g.partly_free.insert(index);
    }
}

void block_pool::fix(std::size_t group, block_id b) {
    ++at(group, b).fixed;
    ++segments_[b / groups_[group].per_segment].fixed;
}

void block_pool::unfix(std::size_t group, block_id b) {
    block& x = at(group, b);
    CHECK(x.fixed > 0, "not fixed");
    --x.fixed;
    --segments_[b / groups_[group].per_segment].fixed;
}

// ---- packing

std::optional<std::uint64_t> block_pool::emptiable(std::size_t group_index) const {
    const group& g = groups_[group_index];
    std::optional<std::uint64_t> best;
    std::uint64_t room = 0;
    for (const std::uint64_t index : g.partly_free) {
        const segment& s = segments_[index];
        room += s.free_slots.size();
        if (s.fixed == 0 && (!best || s.used() < segments_[*best].used())) best = index;
    }
    if (!best) return std::nullopt;
    const segment& s = segments_[*best];
    return s.used() <= room - s.free_slots.size() ? best : std::nullopt;
}

std::vector<block_id> block_pool::used_blocks(std::uint64_t index) const {
    const segment& s = segments_[index];
    std::vector<block_id> used;
    for (std::size_t slot = 0; slot < s.blocks.size(); ++slot)
        if (s.blocks[slot].refs > 0) used.push_back(static_cast<block_id>(index * s.blocks.size() + slot));
    return used;
}

block_id block_pool::relocate(std::size_t group_index, block_id from) {
    group& g = groups_[group_index];
    block& old = at(group_index, from);
    CHECK(old.refs > 0 && old.fixed == 0, "only a block in use that nobody reads or writes beside the steps moves");
    const std::uint64_t source = from / g.per_segment;
    std::optional<std::uint64_t> target;
    for (const std::uint64_t index : g.partly_free)
        if (index != source && (!target || segments_[index].free_slots.size() < segments_[*target].free_slots.size()))
            target = index;
    CHECK(target.has_value(), "no free block outside of the segment");
    segment& s = segments_[*target];
    const std::uint32_t slot = s.free_slots.back();
    s.free_slots.pop_back();
    if (s.free_slots.empty()) g.partly_free.erase(*target);
    s.blocks[slot] = std::exchange(old, {});
    free_slot(g, from);
    return static_cast<block_id>(*target * g.per_segment + slot);
}

std::int64_t block_pool::needed_segments() const {
    std::int64_t n = 0;
    for (const group& g : groups_)
        n += (g.counts.owned + g.counts.cached + g.wanted + g.per_segment - 1) / g.per_segment;
    return n;
}

bool block_pool::only_cached(std::size_t group, block_id b) const {
    const block& x = at(group, b);
    return x.cached && x.refs == 1;
}

std::uint32_t block_pool::refs(std::size_t group, block_id b) const { return at(group, b).refs; }

std::optional<kv_op> block_pool::grow(std::size_t group) {
    if (unallocated_.empty()) return std::nullopt;
    const std::uint64_t index = *unallocated_.begin();
    unallocated_.erase(unallocated_.begin());
    segments_[index].is = state::committing;
    segments_[index].group = static_cast<std::uint32_t>(group);
    ++groups_[group].committing;
    return kv_op{kv_op_kind::commit_segment, static_cast<std::uint32_t>(group), 0, index};
}

void block_pool::committed(std::uint64_t index, bool ok) {
    CHECK(index < segments_.size() && segments_[index].is == state::committing, "nobody asked for this segment");
    segment& s = segments_[index];
    group& g = groups_[s.group];
    --g.committing;
    if (!ok) {
        s = {};
        unallocated_.insert(index);
        return;
    }
    s.is = state::committed;
    s.blocks.assign(g.per_segment, {});
    for (std::uint32_t slot = g.per_segment; slot-- > 0;) s.free_slots.push_back(slot);
    g.counts.free += g.per_segment;
    g.empty.insert(index);
}

kv_op block_pool::give_back(std::uint64_t index) {
    segment& s = segments_[index];
    CHECK(s.is == state::committed && s.used() == 0, "a segment in use cannot be returned");
    const kv_op op{kv_op_kind::release_segment, s.group, 0, index};
    group& g = groups_[s.group];
    g.empty.erase(index);
    g.counts.free -= g.per_segment;
    s = {};
    unallocated_.insert(index);
    return op;
}

std::vector<kv_op> block_pool::release_empty(std::size_t limit) {
    std::set<std::uint64_t, std::greater<>> all;
    for (const group& g : groups_) all.insert(g.empty.begin(), g.empty.end());
    std::vector<kv_op> ops;
    for (std::uint64_t index : all) {
        if (ops.size() >= limit) break;
        ops.push_back(give_back(index));
    }
    return ops;
}

std::optional<kv_op> block_pool::release_foreign(std::size_t mine) {
    for (std::size_t g = 0; g < groups_.size(); ++g)
        if (g != mine && !groups_[g].empty.empty()) return give_back(*groups_[g].empty.rbegin());
    return std::nullopt;
}

std::int64_t block_pool::committed_segments() const {
    std::int64_t asked = 0;
    for (const group& g : groups_) asked += g.committing;
    return max_segments() - unallocated_segments() - asked;
}

std::int64_t block_pool::empty_segments() const {
    std::int64_t n = 0;
    for (const group& g : groups_) n += static_cast<std::int64_t>(g.empty.size());
    return n;
}

std::int64_t block_pool::foreign_empty_segments(std::size_t group) const {
    return empty_segments() - static_cast<std::int64_t>(groups_[group].empty.size());
}

void block_pool::check() const {
    std::vector<block_counts> seen(groups_.size());
    std::int64_t unallocated = 0;
    for (const segment& s : segments_) {
        unallocated += s.is == state::unallocated;
        if (s.is != state::committed) continue;
        std::vector<bool> free(s.blocks.size());
        for (std::uint32_t slot : s.free_slots) {
            CHECK(!free[slot], "free twice");
            free[slot] = true;
        }
        block_counts& counts = seen[s.group];
        std::int64_t fixed = 0;
        for (std::size_t i = 0; i < s.blocks.size(); ++i) {
            const block& b = s.blocks[i];
            CHECK((b.refs == 0) == free[i], "free and referenced, or neither");
            CHECK(!b.cached || b.refs > 0);
            fixed += b.fixed;
            ++(b.refs == 0 ? counts.free : b.cached && b.refs == 1 ? counts.cached : counts.owned);
        }
        CHECK(fixed == s.fixed, "fixed blocks");
    }
    CHECK(unallocated == unallocated_segments());
    for (std::size_t g = 0; g < groups_.size(); ++g) {
        const block_counts& kept = groups_[g].counts;
        CHECK(kept.free == seen[g].free && kept.cached == seen[g].cached && kept.owned == seen[g].owned,
            "block accounts");
    }
}

}  // namespace troupe::actors
