// Tables of running sequences over pool and cache: allocate, trim behind windows, publish, give back.
#include "actors/scheduler/kv_manager.hpp"

#include <algorithm>
#include <map>

#include "core/check.hpp"

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t block = model::block_tokens;
constexpr auto first_back_off = 100ms, longest_back_off = 5000ms;

std::int64_t blocks_for(std::int64_t tokens) { return (tokens + block - 1) / block; }
std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

kv_manager::kv_manager(const model::kv_layout& layout, std::uint64_t max_segments)
    : layout_(layout), pool_(layout, max_segments), cache_(pool_, layout) {}

// ---- how much

block_need kv_manager::need(std::int64_t n, std::int64_t cached_blocks, std::int64_t chunk) const {
    block_need need;
    for (const auto& g : layout_.groups) {
        std::int64_t blocks = blocks_for(n) - cached_blocks;
        // A step over `chunk` tokens sees the window before its first one; two more for both ends cutting a block.
        if (g.window > 0) blocks = std::min(blocks, blocks_for(g.window + chunk) + 2);
        need.push_back(std::max<std::int64_t>(0, blocks));
    }
    return need;
}

bool kv_manager::fits(const block_need& more) const {
    std::int64_t segments = 0, spare = 0;
    for (std::size_t g = 0; g < more.size(); ++g) {
        const auto& c = pool_.counts(g);
        const std::int64_t per = pool_.blocks_per_segment(g),
                           over = more[g] - c.free - c.cached - pool_.committing(g) * per;
        if (over > 0)
            segments += divide_up(over, per);
        else
            spare += -over / per;  // whole segments another group could have, if their blocks lie well
    }
    if (segments == 0) return true;
    return now_ >= blocked_until_ && segments <= pool_.unallocated_segments() + spare;
}

std::int64_t kv_manager::longest_sequence() const {
    // By bisection over what a lone sequence takes of the empty memory, one token of slack for the next step.
    std::int64_t windowed = 0;  // a window's blocks may straddle one segment more
    for (const auto& g : layout_.groups) windowed += g.window > 0;
    const std::int64_t usable =
        pool_.max_segments() > 4 * windowed ? pool_.max_segments() - windowed : pool_.max_segments();
    std::int64_t low = 0, high = 1 << 24;
    while (low < high) {
        const std::int64_t mid = (low + high + 1) / 2;
        std::int64_t segments = 0;
        const block_need alone = need(mid, 0, block);
        for (std::size_t g = 0; g < alone.size(); ++g) segments += divide_up(alone[g], pool_.blocks_per_segment(g));
        if (segments <= usable)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

bool kv_manager::grow(std::size_t group) {
    if (now_ < blocked_until_) return false;
    packing_.reset();
    auto op = pool_.grow(group);
    if (!op) {
        const auto other = pool_.release_foreign(group);
        if (!other) return false;
        ops_.push_back(*other);
        op = pool_.grow(group);
        CHECK(op.has_value());
    }
    ops_.push_back(*op);
    return true;
}

void kv_manager::prepare(const block_need& more) {
    for (std::size_t g = 0; g < more.size(); ++g) {
        pool_.want(g, more[g]);
        while (pool_.counts(g).free + pool_.committing(g) * pool_.blocks_per_segment(g) < more[g] && grow(g)) {
        }
    }
}

kv_manager::got kv_manager::take_block(std::size_t group, block_id& b) {
    for (;;) {
        if (const auto fresh = pool_.alloc(group)) {
            b = *fresh;
            return got::all;
        }
        if (pool_.committing(group) > 0 || grow(group)) return got::soon;
        if (!cache_.evict(group) && !evict_foreign(group)) return got::short_;
    }
}

/// Free and cached blocks of other groups may fill the segments this group needs.
bool kv_manager::evict_foreign(std::size_t group) {
    if (now_ < blocked_until_) return false;
    for (std::size_t g = 0; g < pool_.n_groups(); ++g) {
        if (g == group) continue;
        do
            if (empty_segment(g) || pool_.foreign_empty_segments(group) > 0) return true;
        while (cache_.evict(g));
    }
    return false;
}

// ---- a sequence's life

std::int64_t kv_manager::start(sequence_kv& s, std::span<const token_id> tokens, std::int64_t most) {
    const std::int64_t covered = adopt(s, cache_.find(tokens, most));
    return covered >= 0 ? covered : adopt(s, cache_.find(tokens, most, false));
}

std::int64_t kv_manager::adopt(sequence_kv& s, prefix_cache::match m) {
    s = {};
    s.groups.resize(layout_.groups.size());
    cache_.touch(m);
    const std::int64_t covered = static_cast<std::int64_t>(m.path.size()) * block;
    for (std::size_t g = 0; g < s.groups.size(); ++g) {
        auto& mine = s.groups[g];
        const std::int32_t window = layout_.groups[g].window;
        // Behind the window of the first row nothing is looked at, so nothing need be held. That row may come before
        // the copied tokens, if no block is to be had for them.
        const std::int64_t first = window > 0 ? std::max<std::int64_t>(0, covered - window + 1) / block : 0;
        mine.live = static_cast<std::uint32_t>(std::min<std::int64_t>(first, static_cast<std::int64_t>(m.path.size())));
        for (std::size_t i = 0; i < m.path.size(); ++i) {
            const block_id b = i < mine.live ? no_block : m.path[i]->blocks[g];
            mine.blocks.push_back(b);
            if (b != no_block) pool_.ref(g, b);
        }
    }
    if (!m.path.empty()) {
        s.published = m.path.back();
        cache_.pin(s.published);
        s.n_published = static_cast<std::int64_t>(m.path.size());
    }
    if (m.copied == 0) return covered;
    cache_.pin(m.copy_from);
    const bool room = extend(s, covered + m.copied) == got::all;
    cache_.unpin(m.copy_from);
    // While room was made, the window's reference may have gone.
    const bool whole =
        std::find(m.copy_from->blocks.begin(), m.copy_from->blocks.end(), no_block) == m.copy_from->blocks.end();
    if ((!room || !whole) && !m.whole_usable) {
        release(s);
        return -1;
    }
    if (!room || !whole) return covered;
    for (std::size_t g = 0; g < s.groups.size(); ++g)
        ops_.push_back(
            {kv_op_kind::copy_block, static_cast<std::uint32_t>(g), m.copy_from->blocks[g], s.groups[g].blocks.back()});
    return covered + m.copied;
}

kv_manager::got kv_manager::extend(sequence_kv& s, std::int64_t end) {
    const auto wanted = static_cast<std::size_t>(blocks_for(end));
    got worst = got::all;
    current_ = &s;
    for (std::size_t g = 0; g < s.groups.size(); ++g) {
        auto& table = s.groups[g].blocks;
        while (table.size() < wanted) {
            block_id b = no_block;
            const got r = take_block(g, b);
            worst = std::max(worst, r);
            if (r != got::all) break;
            table.push_back(b);
        }
    }
    current_ = nullptr;
    return worst;
}

void kv_manager::trim(sequence_kv& s, std::int64_t next, bool all) {
    for (std::size_t g = 0; g < s.groups.size(); ++g) {
        const std::int32_t window = layout_.groups[g].window;
        if (window == 0) continue;
        auto& mine = s.groups[g];
        std::int64_t behind = std::max<std::int64_t>(0, next - window + 1) / block;
        if (!all) behind = std::min(behind, s.n_published);
        behind = std::min(behind, static_cast<std::int64_t>(mine.blocks.size()));
        for (; mine.live < behind; ++mine.live) {
            block_id& b = mine.blocks[mine.live];
            if (b != no_block) pool_.unref(g, b);
            b = no_block;
            if (mine.live < mine.sent) mine.dirty.push_back(mine.live);
        }
    }
}

void kv_manager::publish(sequence_kv& s, std::span<const token_id> tokens, std::int64_t end) {
    std::vector<block_id> blocks(s.groups.size());
    for (; (s.n_published + 1) * block <= end; ++s.n_published) {
        const auto i = static_cast<std::size_t>(s.n_published);
        for (std::size_t g = 0; g < blocks.size(); ++g) blocks[g] = s.groups[g].blocks[i];
        prefix_cache::node* n = cache_.insert(s.published, tokens.subspan(i * block, block), blocks);
        cache_.pin(n);
        n->keep = n->keep || s.keep;
        if (s.published) cache_.unpin(s.published);
        s.published = n;
        // Somebody published the same before: hold his blocks and give ours back. The bits are the same.
        for (std::size_t g = 0; g < blocks.size(); ++g) {
            if (blocks[g] == no_block || n->blocks[g] == blocks[g]) continue;
            pool_.ref(g, n->blocks[g]);
            pool_.unref(g, blocks[g]);
            s.groups[g].blocks[i] = n->blocks[g];
            if (i < s.groups[g].sent) s.groups[g].dirty.push_back(static_cast<std::uint32_t>(i));
        }
    }
}

void kv_manager::release(sequence_kv& s, bool used) {
    for (std::size_t g = 0; g < s.groups.size(); ++g)
        for (const block_id b : s.groups[g].blocks)
            if (b != no_block) pool_.unref(g, b);
    if (s.published) {
        if (used) cache_.touch(s.published);
        cache_.unpin(s.published);
    }
    s = {};
}

std::vector<table_delta> kv_manager::take_deltas(sequence_kv& s) {
    std::vector<table_delta> deltas;
    for (std::size_t g = 0; g < s.groups.size(); ++g) {
        auto& mine = s.groups[g];
        std::sort(mine.dirty.begin(), mine.dirty.end());
        mine.dirty.erase(std::unique(mine.dirty.begin(), mine.dirty.end()), mine.dirty.end());
        for (const std::uint32_t i : mine.dirty) {
            if (deltas.empty() || deltas.back().group != g || deltas.back().first + deltas.back().blocks.size() != i)
                deltas.push_back({static_cast<std::uint32_t>(g), i, {}});
            deltas.back().blocks.push_back(mine.blocks[i]);
        }
        mine.dirty.clear();
        if (mine.sent == mine.blocks.size()) continue;
        deltas.push_back(
            {static_cast<std::uint32_t>(g), mine.sent, {mine.blocks.begin() + mine.sent, mine.blocks.end()}});
        mine.sent = static_cast<std::uint32_t>(mine.blocks.size());
    }
    return deltas;
}

// ---- operations

std::vector<kv_op> kv_manager::take_ops() { return std::exchange(ops_, {}); }

void kv_manager::op_done(const kv_op& op, bool ok, steady_time now) {
    if (op.kind != kv_op_kind::commit_segment) return;
    pool_.committed(op.to, ok);
    if (ok) {
        failures_ = 0;
        return;
    }
    const auto wait =
        std::min<std::chrono::milliseconds>(first_back_off * (1 << std::min(failures_, 10)), longest_back_off);
    ++failures_;
    blocked_until_ = std::max(blocked_until_, now + wait);
}

bool kv_manager::commits_pending() const {
    for (std::size_t g = 0; g < pool_.n_groups(); ++g)
        if (pool_.committing(g) > 0) return true;
    return false;
}

// ---- giving back

void kv_manager::release_empty(std::size_t segments) {
    const auto ops = pool_.release_empty(segments);
    ops_.insert(ops_.end(), ops.begin(), ops.end());
}

void kv_manager::give_back(const memory_order& order, const prefix_cache::choice& spared) {
    cache_.evict_cold(order.evict_before, spared);
    packing_ = order.spare;
}

void kv_manager::move_block(std::size_t group, block_id from, const std::vector<sequence_kv*>& holders) {
    void* const in_cache = pool_.holder(group, from);
    const block_id to = pool_.relocate(group, from);
    ops_.push_back({kv_op_kind::copy_block, static_cast<std::uint32_t>(group), from, to});
    if (in_cache) prefix_cache::moved(in_cache, group, to);
    for (sequence_kv* s : holders) {
        if (s->groups.empty()) continue;
        auto& mine = s->groups[group];
        for (std::size_t i = mine.live; i < mine.blocks.size(); ++i) {
            if (mine.blocks[i] != from) continue;
            mine.blocks[i] = to;
            if (i < mine.sent) mine.dirty.push_back(static_cast<std::uint32_t>(i));
            break;
        }
    }
    ++blocks_moved_;
}

/// Moves what is in the group's emptiest segment to others.
bool kv_manager::empty_segment(std::size_t group) {
    const auto segment = holders_ ? pool_.emptiable(group) : std::nullopt;
    if (!segment) return false;
    auto holders = holders_();
    if (current_) holders.push_back(current_);
    for (const block_id b : pool_.used_blocks(*segment)) move_block(group, b, holders);
    return true;
}

void kv_manager::pack() {
    if (!packing_) return;
    const auto over = [&] { return pool_.committed_segments() - (pool_.needed_segments() + *packing_); };
    if (over() > pool_.empty_segments())
        for (std::size_t g = 0; g < pool_.n_groups(); ++g)
            if (empty_segment(g)) break;
    if (over() > 0) release_empty(static_cast<std::size_t>(over()));
    bool more = false;
    for (std::size_t g = 0; g < pool_.n_groups(); ++g) more = more || (holders_ && pool_.emptiable(g));
    if (over() <= 0 || !more) packing_.reset();
}

void kv_manager::check(std::span<const sequence_kv* const> sequences) const {
    pool_.check();
    cache_.check();
    std::vector<std::map<block_id, std::uint32_t>> held(pool_.n_groups());
    cache_.each_block([&](std::size_t g, block_id b) { ++held[g][b]; });
    for (const sequence_kv* s : sequences)
        for (std::size_t g = 0; g < s->groups.size(); ++g)
            for (const block_id b : s->groups[g].blocks)
                if (b != no_block) ++held[g][b];
    for (std::size_t g = 0; g < held.size(); ++g) {
        const auto& c = pool_.counts(g);
        CHECK(static_cast<std::int64_t>(held[g].size()) == c.owned + c.cached, "a used block that nobody holds");
        for (const auto& [b, n] : held[g]) CHECK(pool_.refs(g, b) == n, "a reference that nobody explains");
    }
}

}  // namespace troupe::actors
