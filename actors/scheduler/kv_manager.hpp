// The KV memory of one executor incarnation as the scheduler sees it: pool, prefix cache, and each sequence's block
// tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "actors/kv_usage.hpp"
#include "actors/scheduler/block_pool.hpp"
#include "actors/scheduler/disk_index.hpp"
#include "actors/scheduler/prefix_cache.hpp"
#include "core/clock.hpp"

namespace troupe::actors {

/// Block tables of one running sequence.
struct sequence_kv {
    struct group {
        std::vector<block_id> blocks;
        std::uint32_t sent = 0;            ///< entries the executor has
        std::uint32_t live = 0;            ///< entries before are no_block
        std::vector<std::uint32_t> dirty;  ///< entries below `sent` that changed since
    };
    std::vector<group> groups;
    prefix_cache::node* published = nullptr;  ///< deepest node of this path, pinned
    std::int64_t n_published = 0;             ///< blocks in the cache
    bool keep = false;                        ///< what it publishes may be kept on the disk
};

/// What one sequence needs, in blocks of each group.
using block_need = std::vector<std::int64_t>;

class kv_manager {
 public:
    kv_manager(const model::kv_layout& layout, std::uint64_t max_segments);

    enum class got : std::uint8_t {
        all,
        soon,   ///< a segment was asked for: its commit is on the way
        short_  ///< nothing free, nothing to evict, nothing to commit
    };

    /// Longest sequence the whole memory can hold.
    std::int64_t longest_sequence() const;
    /// Blocks for `n` tokens of which `cached` blocks are shared; windows count as wide as a step of `chunk` needs
    /// them.
    block_need need(std::int64_t n, std::int64_t cached_blocks, std::int64_t chunk) const;
    /// Whether `more` could be allocated: free + evictable + what can still be committed.
    bool fits(const block_need& more) const;
    /// Asks for the segments that `more` will need, so that their commits are under way and they are not given back.
    void prepare(const block_need& more);

    prefix_cache::match find(std::span<const token_id> tokens, std::int64_t most) const {
        return cache_.find(tokens, most);
    }
    /// Starts a sequence on the longest usable prefix of at most `most` tokens. Returns the tokens covered.
    std::int64_t start(sequence_kv& s, std::span<const token_id> tokens, std::int64_t most);
    /// Starts a sequence on what the cache has. Copies its partial block if a block is to be had at once. Returns the
    /// tokens covered; -1 (and nothing is held) if without the copy the match is not usable.
    std::int64_t adopt(sequence_kv& s, prefix_cache::match m);
    /// Blocks for positions [0, end). On `soon` and `short_` the sequence keeps what it got.
    got extend(sequence_kv& s, std::int64_t end);
    /// Gives back blocks wholly behind the window of a row at `next`. Blocks that are not published yet stay, unless
    /// `all`: a later prompt could use them.
    void trim(sequence_kv& s, std::int64_t next, bool all);
    /// Puts the full blocks of positions [0, end) into the cache. `tokens`: of the sequence, from position 0.
    void publish(sequence_kv& s, std::span<const token_id> tokens, std::int64_t end);
    void checkpoint(sequence_kv& s) { cache_.mark_checkpoint(s.published); }
    /// used: what it published counts as used now.
    void release(sequence_kv& s, bool used = true);
    std::vector<table_delta> take_deltas(sequence_kv& s);

    /// Operations decided since the last call, in order.
    std::vector<kv_op> take_ops();
    bool has_ops() const { return !ops_.empty(); }
    void op_done(const kv_op& op, bool ok, steady_time now);
    /// After a failed commit nothing is asked for until then.
    bool commits_blocked(steady_time now) const { return now < blocked_until_; }
    void set_now(steady_time now) {
        now_ = now;
        cache_.set_now(now);
    }
    steady_time blocked_until() const { return blocked_until_; }
    bool commits_pending() const;

    // -- giving memory back
    /// Who holds block tables besides the cache: they hear of blocks that move. Without it none moves.
    void set_holders(std::function<std::vector<sequence_kv*>()> holders) { holders_ = std::move(holders); }
    /// Evicts at once. Then each call of `pack` moves the blocks of one segment together with others and returns what
    /// is empty, until no more than order.spare segments are committed beyond what is needed, or memory is asked for.
    /// `spared` leaves stay.
    void give_back(const memory_order& order, const prefix_cache::choice& spared = {});
    bool packing() const { return packing_.has_value(); }
    /// Must come before any table of the plan is taken.
    void pack();
    void set_costs(double token_ms, double depth_ms) { cache_.set_costs(token_ms, depth_ms); }
    std::uint64_t take_blocks_moved() { return std::exchange(blocks_moved_, 0); }  ///< since the last call

    // -- tiers below: blocks that are read or written beside the steps stay where they are (kv_manager_tiers.cpp)
    /// Holds the blocks of leaf's path from `first` on that a longer prompt would need; the job gets its part and
    /// tokens.
    void hold_to_save(sequence_kv& s, prefix_cache::node* leaf, std::uint32_t first, kv_job& job);
    /// Blocks for what comes from the disk, behind what the cache has. Call again while it says `soon`; at `all` the
    /// job has its parts.
    got hold_to_load(sequence_kv& s, prefix_cache::match at_hand, const disk_index::match& found, kv_job& job);
    void unfix(const kv_job& job);

    const block_pool& pool() const { return pool_; }
    const prefix_cache& cache() const { return cache_; }
    const model::kv_layout& layout() const { return layout_; }
    /// CHECKs pool and cache, and that every reference is explained by the cache or one of `sequences`.
    void check(std::span<const sequence_kv* const> sequences) const;

 private:
    got take_block(std::size_t group, block_id& b);
    bool grow(std::size_t group);
    bool evict_foreign(std::size_t group);
    bool empty_segment(std::size_t group);
    void move_block(std::size_t group, block_id from, const std::vector<sequence_kv*>& holders);
    void release_empty(std::size_t segments);

    model::kv_layout layout_;
    block_pool pool_;
    prefix_cache cache_;
    std::vector<kv_op> ops_;
    steady_time now_{}, blocked_until_{};
    int failures_ = 0;
    sequence_kv* current_ = nullptr;  ///< what extend works on: it may not be among the holders yet
    std::function<std::vector<sequence_kv*>()> holders_;
    std::optional<std::int64_t> packing_;  ///< spare segments that may stay
    std::uint64_t blocks_moved_ = 0;
};

}  // namespace troupe::actors
