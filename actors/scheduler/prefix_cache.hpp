// The prefix cache: a radix tree over token ids whose nodes are blocks of 16 tokens, each with one reference per layer
// group. One cache belongs to one executor incarnation, so model, KV type and numerics id are the same for everything
// in it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "actors/scheduler/block_pool.hpp"
#include "core/clock.hpp"

namespace troupe::actors {

/// Window blocks that are kept on the disk besides those a row at the end looks at: the next prompt may leave the path
/// a little earlier.
inline constexpr std::uint32_t window_slack = 4;

class prefix_cache {
 public:
    using block_tokens_key = std::array<token_id, model::block_tokens>;

    struct node {
        node* parent = nullptr;
        block_tokens_key key{};
        std::vector<block_id> blocks;  ///< one a group; no_block: the window's reference is absent
        std::map<block_tokens_key, std::unique_ptr<node>> children;
        std::uint64_t used = 0;    ///< tick of the last use; the order of eviction
        std::uint64_t number = 0;  ///< in the order of creation
        steady_time used_at{};
        std::uint64_t prefix = 0;      ///< model::prefix_key of the path to here
        bool keep = false;             ///< may be kept on the disk
        std::int32_t depth = 0;        ///< blocks from the root, this one included
        std::int32_t pins = 0;         ///< sequences that would publish below it
        std::int32_t checkpoints = 0;  ///< checkpoints whose window covers it: its window references are evicted late
        bool checkpoint_end = false;
    };

    /// What a prompt finds. Blocks [0, path.size()) are shared; then `copied` tokens of copy_from are shared by copy.
    struct match {
        std::vector<node*> path;
        node* copy_from = nullptr;
        std::int32_t copied = 0;
        bool whole_usable = true;  ///< false: without the copied tokens the shared blocks do not cover the windows
        std::int64_t n_tokens() const { return static_cast<std::int64_t>(path.size()) * model::block_tokens + copied; }
    };

    prefix_cache(block_pool& pool, const model::kv_layout& layout);
    ~prefix_cache();

    /// The longest usable L <= most: full-attention blocks cover [0, L), window blocks [max(0, L - W + 1), L).
    /// parts: share a part of a block by copy.
    match find(std::span<const token_id> tokens, std::int64_t most, bool parts = true) const;
    void touch(const match& m);
    /// Counts the whole path to n as used now.
    void touch(node* n);
    void set_now(steady_time now) { now_ = now; }
    /// What it costs to compute a token again: ms, and ms more for each position before it. Only the ratio matters.
    void set_costs(double token_ms, double depth_ms);
    /// The block of a node lies elsewhere now. `holder`: what the pool says (block_pool::holder).
    static void moved(void* holder, std::size_t group, block_id to) { static_cast<node*>(holder)->blocks[group] = to; }

    /// The node for these 16 tokens below `parent` (null: the root). A new one takes a reference to each given block;
    /// an existing one takes only those it lacks. `blocks`: one a group, no_block where the sequence has none any more.
    node* insert(node* parent, std::span<const token_id> tokens, std::span<const block_id> blocks);
    void pin(node* n);
    void unpin(node* n);
    /// The last window before the end of n is kept longer (a turn's boundary); at most 4 on one path, the first and the
    /// three latest.
    void mark_checkpoint(node* n);

    /// Frees at least one block of this group; false if nothing of it can be evicted.
    bool evict(std::size_t group);
    using choice = std::function<bool(const node&)>;
    /// Evicts what was used last before `limit`, as far as nobody needs it, but not leaves that are `spared`,
    /// nor the window blocks these look at.
    void evict_cold(steady_time limit, const choice& spared = {});
    /// A leaf that evict_cold would evict and that is `wanted`; null: there is none.
    node* find_cold(steady_time limit, const choice& wanted) const;
    /// When the longest unused thing that could be evicted was used.
    std::optional<steady_time> coldest() const;

    std::int64_t n_nodes() const { return n_nodes_; }
    /// CHECKs the tree's own links, and that its references are exactly the pool's cached marks (through `visit`).
    void check() const;
    /// Every block the tree refers to.
    template <class F> void each_block(F&& f) const {
        each(root_, [&](const node& n) {
            for (std::size_t g = 0; g < n.blocks.size(); ++g)
                if (n.blocks[g] != no_block) f(g, n.blocks[g]);
        });
    }

 private:
    /// By last use; of those used together, by age. Addresses must not decide: a seed of the simulation replays.
    struct used_before {
        using entry = std::pair<std::uint64_t, node*>;
        bool operator()(const entry& a, const entry& b) const {
            return std::pair{a.first, a.second->number} < std::pair{b.first, b.second->number};
        }
    };
    using order = std::set<std::pair<std::uint64_t, node*>, used_before>;

    template <class F> static void each(const node& n, F&& f) {
        for (const auto& [key, child] : n.children) {
            f(*child);
            each(*child, f);
        }
    }
    bool is_window(std::size_t group) const { return windows_[group] > 0; }
    void list(node* n);  ///< enters n into the eviction orders it belongs to
    void unlist(node* n);
    void use(node* n);
    bool evictable(const node& n) const;
    double worth(const node& n) const;
    bool drop_window(std::size_t group, node* n);
    void remove(node* n);  ///< a leaf; cascades to ancestors that hold nothing any more
    bool drop_window(std::size_t group, order& from);
    bool evict_leaf();
    void count_checkpoint(node* n, int by);
    using runs = std::vector<std::int64_t>;  ///< a group: references without a gap that end here
    bool usable(std::int64_t length, std::int64_t i, const runs& reach) const;
    void partial(match& m, const node& parent, std::int64_t i, std::span<const token_id> rest, std::int64_t most,
        const runs& reach) const;

    block_pool& pool_;
    std::vector<std::int32_t> windows_;
    std::vector<double> block_bytes_;
    std::int32_t widest_ = 0;
    bool any_full_ = false;
    node root_;
    std::uint64_t tick_ = 0;
    steady_time now_{};
    double token_ms_ = 1, depth_ms_ = 0;
    std::int64_t n_nodes_ = 0;
    std::uint64_t last_number_ = 0;
    order leaves_;
    std::vector<order> plain_, kept_;  ///< a window group: nodes with its reference, outside and inside of checkpoints
};

}  // namespace troupe::actors
