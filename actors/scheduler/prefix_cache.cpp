// Radix tree over blocks of token ids: matching under the window rule, insertion, eviction by least recent use.
#include "actors/scheduler/prefix_cache.hpp"

#include <algorithm>
#include <limits>

#include "core/check.hpp"
#include "model/kv_image.hpp"

namespace troupe::actors {
namespace {

constexpr std::int64_t block = model::block_tokens;
constexpr std::size_t checkpoints_a_path = 4;
constexpr int leaves_compared = 16;

prefix_cache::block_tokens_key key_of(std::span<const token_id> tokens) {
    prefix_cache::block_tokens_key key;
    key.fill(std::numeric_limits<token_id>::min());
    std::copy_n(tokens.begin(), std::min(tokens.size(), key.size()), key.begin());
    return key;
}

/// Blocks from the first one a row at position L looks at up to block i.
std::int64_t blocks_seen(std::int64_t length, std::int64_t i, std::int32_t window) {
    const std::int64_t first = std::max<std::int64_t>(0, length - window + 1);
    return i - std::min(i, first / block);
}

}  // namespace

prefix_cache::prefix_cache(block_pool& pool, const model::kv_layout& layout) : pool_(pool) {
    for (const auto& g : layout.groups) {
        windows_.push_back(g.window);
        block_bytes_.push_back(static_cast<double>(g.block_bytes));
        widest_ = std::max(widest_, g.window);
        any_full_ = any_full_ || g.window == 0;
    }
    plain_.resize(windows_.size());
    kept_.resize(windows_.size());
}

prefix_cache::~prefix_cache() = default;

// ---- finding

prefix_cache::match prefix_cache::find(std::span<const token_id> tokens, std::int64_t most, bool parts) const {
    CHECK(most <= static_cast<std::int64_t>(tokens.size()));
    const auto rest = [&](std::int64_t i) { return tokens.subspan(static_cast<std::size_t>(i * block)); };
    std::vector<node*> path;
    std::vector<runs> reach{runs(windows_.size(), 0)};  // after each block of the path
    std::int64_t best = 0;
    for (std::int64_t i = 1; i * block <= most; ++i) {
        const node& at = path.empty() ? root_ : *path.back();
        const auto child = at.children.find(key_of(rest(i - 1).first(block)));
        if (child == at.children.end()) break;
        node* n = child->second.get();
        path.push_back(n);
        reach.push_back(reach.back());
        for (std::size_t g = 0; g < windows_.size(); ++g)
            reach.back()[g] = n->blocks[g] == no_block ? 0 : reach.back()[g] + 1;
        if (usable(i * block, i, reach.back())) best = i;
    }
    // A part of the next block may be usable where its start is not: the window has moved on.
    match m;
    for (auto i = static_cast<std::int64_t>(path.size()); parts && i >= best && m.copied == 0; --i) {
        partial(m, i == 0 ? root_ : *path[static_cast<std::size_t>(i - 1)], i, rest(i), most - i * block,
            reach[static_cast<std::size_t>(i)]);
        m.whole_usable = m.copied == 0 || i == best;
        if (m.copied > 0) best = i;
    }
    m.path.assign(path.begin(), path.begin() + best);
    return m;
}

/// Whether the windows of a row at `length`, of which i whole blocks lie before, are covered.
bool prefix_cache::usable(std::int64_t length, std::int64_t i, const runs& reach) const {
    for (std::size_t g = 0; g < windows_.size(); ++g)
        if (is_window(g) && reach[g] < blocks_seen(length, i, windows_[g])) return false;
    return true;
}

/// The child that shares most tokens of the next block is a neighbour of the key in the children's order.
void prefix_cache::partial(match& m, const node& parent, std::int64_t i, std::span<const token_id> rest,
    std::int64_t most, const runs& reach) const {
    if (most <= 0) return;
    const auto key = key_of(rest);
    const auto consider = [&](node* n) {
        const auto differs = std::mismatch(n->key.begin(), n->key.end(), key.begin()).first;
        const std::int64_t same = std::min({static_cast<std::int64_t>(differs - n->key.begin()), most, block - 1});
        const bool whole = std::find(n->blocks.begin(), n->blocks.end(), no_block) == n->blocks.end();
        if (same <= m.copied || !whole || !usable(i * block + same, i, reach)) return;
        m.copy_from = n;
        m.copied = static_cast<std::int32_t>(same);
    };
    const auto after = parent.children.lower_bound(key);
    if (after != parent.children.end()) consider(after->second.get());
    if (after != parent.children.begin()) consider(std::prev(after)->second.get());
}

void prefix_cache::touch(const match& m) {
    ++tick_;
    for (node* n : m.path) use(n);
    if (m.copy_from) use(m.copy_from);
}

void prefix_cache::touch(node* n) {
    ++tick_;
    for (; n != nullptr && n != &root_; n = n->parent) use(n);
}

void prefix_cache::set_costs(double token_ms, double depth_ms) {
    if (token_ms <= 0) return;
    token_ms_ = token_ms;
    depth_ms_ = std::max(0.0, depth_ms);
}

// ---- growing

void prefix_cache::list(node* n) {
    if (n == &root_) return;
    if (n->children.empty()) leaves_.insert({n->used, n});
    for (std::size_t g = 0; g < windows_.size(); ++g)
        if (is_window(g) && n->blocks[g] != no_block) (n->checkpoints > 0 ? kept_ : plain_)[g].insert({n->used, n});
}

void prefix_cache::unlist(node* n) {
    if (n == &root_) return;
    leaves_.erase({n->used, n});
    for (std::size_t g = 0; g < windows_.size(); ++g) (n->checkpoints > 0 ? kept_ : plain_)[g].erase({n->used, n});
}

void prefix_cache::use(node* n) {
    unlist(n);
    n->used = tick_;
    n->used_at = now_;
    list(n);
}

prefix_cache::node* prefix_cache::insert(
    node* parent, std::span<const token_id> tokens, std::span<const block_id> blocks) {
    CHECK(tokens.size() == static_cast<std::size_t>(block) && blocks.size() == windows_.size());
    if (parent == nullptr) parent = &root_;
    ++tick_;
    const auto key = key_of(tokens);
    auto found = parent->children.find(key);
    if (found == parent->children.end()) {
        unlist(parent);
        auto fresh = std::make_unique<node>();
        fresh->parent = parent;
        fresh->number = ++last_number_;
        fresh->key = key;
        fresh->blocks.assign(windows_.size(), no_block);
        fresh->depth = parent->depth + 1;
        fresh->prefix = model::prefix_key(parent->prefix, tokens);
        found = parent->children.emplace(key, std::move(fresh)).first;
        list(parent);
        ++n_nodes_;
    }
    node* n = found->second.get();
    unlist(n);
    n->used = tick_;
    n->used_at = now_;
    for (std::size_t g = 0; g < windows_.size(); ++g) {
        CHECK(is_window(g) || blocks[g] != no_block, "a full-attention block is missing");
        if (n->blocks[g] != no_block || blocks[g] == no_block) continue;
        n->blocks[g] = blocks[g];
        pool_.cache_ref(g, blocks[g], n);
    }
    list(n);
    return n;
}

void prefix_cache::pin(node* n) { ++n->pins; }

void prefix_cache::unpin(node* n) {
    CHECK(n->pins > 0);
    --n->pins;
}

void prefix_cache::count_checkpoint(node* n, int by) {
    const int covered = (widest_ + model::block_tokens - 1) / model::block_tokens + 1;
    for (int i = 0; i < covered && n != &root_; ++i, n = n->parent) {
        unlist(n);
        n->checkpoints += by;
        CHECK(n->checkpoints >= 0);
        list(n);
    }
}

void prefix_cache::mark_checkpoint(node* n) {
    if (widest_ == 0 || n == nullptr || n == &root_ || n->checkpoint_end) return;
    std::vector<node*> ends;  // deepest first
    for (node* up = n->parent; up != &root_; up = up->parent)
        if (up->checkpoint_end) ends.push_back(up);
    if (ends.size() >= checkpoints_a_path) {
        node* old = ends[ends.size() - 2];
        old->checkpoint_end = false;
        count_checkpoint(old, -1);
    }
    n->checkpoint_end = true;
    count_checkpoint(n, +1);
}

// ---- shrinking

bool prefix_cache::evictable(const node& n) const {
    if (n.pins > 0 || !n.children.empty()) return false;
    for (std::size_t g = 0; g < n.blocks.size(); ++g)
        if (n.blocks[g] != no_block && !pool_.only_cached(g, n.blocks[g])) return false;
    return true;
}

void prefix_cache::remove(node* n) {
    while (n != &root_) {
        node* parent = n->parent;
        unlist(n);
        if (n->checkpoint_end) {
            count_checkpoint(n, -1);
            unlist(n);
        }
        for (std::size_t g = 0; g < n->blocks.size(); ++g)
            if (n->blocks[g] != no_block) pool_.cache_unref(g, n->blocks[g]);
        unlist(parent);
        const auto key = n->key;
        parent->children.erase(key);
        list(parent);
        --n_nodes_;
        // An ancestor that is no way to anything any more and holds nothing itself would stay for ever.
        const bool empty =
            std::all_of(parent->blocks.begin(), parent->blocks.end(), [](block_id b) { return b == no_block; });
        if (parent == &root_ || !parent->children.empty() || parent->pins > 0 || !empty) return;
        n = parent;
    }
}

bool prefix_cache::drop_window(std::size_t group, node* victim) {
    if (!pool_.only_cached(group, victim->blocks[group])) return false;
    unlist(victim);
    pool_.cache_unref(group, victim->blocks[group]);
    victim->blocks[group] = no_block;
    list(victim);
    const bool empty =
        std::all_of(victim->blocks.begin(), victim->blocks.end(), [](block_id b) { return b == no_block; });
    if (empty && victim->children.empty() && victim->pins == 0) remove(victim);
    return true;
}

bool prefix_cache::drop_window(std::size_t group, order& from) {
    for (const auto& [used, n] : from)
        if (drop_window(group, n)) return true;
    return false;
}

/// What evicting a leaf loses, for the memory it gives and the time it was not used: the time to compute it again.
double prefix_cache::worth(const node& n) const {
    double bytes = 0;
    for (std::size_t g = 0; g < n.blocks.size(); ++g) bytes += n.blocks[g] == no_block ? 0 : block_bytes_[g];
    const double age = static_cast<double>(tick_ - n.used + 1), depth = static_cast<double>(n.depth * block);
    return (token_ms_ + depth_ms_ * depth) / (std::max(bytes, 1.0) * age);
}

/// Of the leaves that were not used for longest, the one that is worth least. Each has a block of every group without a
/// window.
bool prefix_cache::evict_leaf() {
    node* victim = nullptr;
    double least = 0;
    int seen = 0;
    for (const auto& [used, n] : leaves_) {
        if (!evictable(*n)) continue;
        const double value = worth(*n);
        if (!victim || value < least) {
            victim = n;
            least = value;
        }
        if (++seen == leaves_compared) break;
    }
    if (victim) remove(victim);
    return victim != nullptr;
}

prefix_cache::node* prefix_cache::find_cold(steady_time limit, const choice& wanted) const {
    for (auto at = leaves_.begin(); at != leaves_.end() && at->second->used_at < limit; ++at)
        if (evictable(*at->second) && wanted(*at->second)) return at->second;
    return nullptr;
}

void prefix_cache::evict_cold(steady_time limit, const choice& spared) {
    std::set<const node*> spared_paths;  // what the spared leaves look at, their window blocks included
    const int seen = widest_ / model::block_tokens + 2 + static_cast<int>(window_slack);
    for (auto at = leaves_.begin(); at != leaves_.end() && at->second->used_at < limit;) {
        node* leaf = at->second;
        const bool stays = spared && evictable(*leaf) && spared(*leaf);
        if (stays && widest_ > 0)
            for (auto [n, i] = std::pair{leaf, 0}; n != &root_ && i < seen; n = n->parent, ++i) spared_paths.insert(n);
        if (stays || !evictable(*leaf)) {
            ++at;
            continue;
        }
        remove(leaf);  // its parent may be the first leaf now
        at = leaves_.begin();
    }
    for (std::size_t g = 0; g < windows_.size(); ++g) {
        std::vector<node*> cold;
        for (const order* from : {&plain_[g], &kept_[g]})
            for (auto at = from->begin(); at != from->end() && at->second->used_at < limit; ++at)
                if (!spared_paths.contains(at->second)) cold.push_back(at->second);
        for (node* n : cold) drop_window(g, n);
    }
}

std::optional<steady_time> prefix_cache::coldest() const {
    std::optional<steady_time> first;
    for (const auto& [used, n] : leaves_) {
        if (!evictable(*n)) continue;
        first = n->used_at;
        break;
    }
    for (std::size_t g = 0; g < windows_.size(); ++g)
        for (const order* from : {&plain_[g], &kept_[g]}) {
            int seen = 0;
            for (auto at = from->begin(); at != from->end() && ++seen <= leaves_compared; ++at) {
                if (!pool_.only_cached(g, at->second->blocks[g])) continue;
                first = std::min(first.value_or(at->second->used_at), at->second->used_at);
                break;
            }
        }
    return first;
}

bool prefix_cache::evict(std::size_t group) {
    if (!is_window(group)) return evict_leaf();
    return drop_window(group, plain_[group]) || drop_window(group, kept_[group]);
}

void prefix_cache::check() const {
    std::int64_t n_nodes = 0, leaves = 0;
    each(root_, [&](const node& n) {
        ++n_nodes;
        leaves += n.children.empty();
        CHECK(n.pins >= 0 && n.checkpoints >= 0 && n.depth == n.parent->depth + 1);
        CHECK(leaves_.count({n.used, const_cast<node*>(&n)}) == (n.children.empty() ? 1u : 0u), "leaf order");
        for (std::size_t g = 0; g < n.blocks.size(); ++g) {
            CHECK(n.blocks[g] != no_block || is_window(g), "a node without its full-attention block");
            if (n.blocks[g] != no_block) CHECK(pool_.refs(g, n.blocks[g]) > 0);
        }
    });
    CHECK(n_nodes == n_nodes_ && leaves == static_cast<std::int64_t>(leaves_.size()), "nodes are lost");
}

}  // namespace troupe::actors
