// The KV memory of one executor incarnation as the scheduler sees it: pool, prefix cache, and each sequence's block
// tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "actors/scheduler/block_pool.hpp"
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
    /// Asks for the segments that `more` will need, so that their commits are under way.
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
    void release(sequence_kv& s);
    std::vector<table_delta> take_deltas(sequence_kv& s);

    /// Operations decided since the last call, in order.
    std::vector<kv_op> take_ops();
    bool has_ops() const { return !ops_.empty(); }
    void op_done(const kv_op& op, bool ok, steady_time now);
    /// After a failed commit nothing is asked for until then.
    bool commits_blocked(steady_time now) const { return now < blocked_until_; }
    void set_now(steady_time now) { now_ = now; }
    steady_time blocked_until() const { return blocked_until_; }
    bool commits_pending() const;

    /// Evicts and returns segments until at most `bytes` are committed, as far as nobody owns them.
    void shrink_to(std::uint64_t bytes);
    std::size_t release_empty();

    const block_pool& pool() const { return pool_; }
    const prefix_cache& cache() const { return cache_; }
    const model::kv_layout& layout() const { return layout_; }
    /// CHECKs pool and cache, and that every reference is explained by the cache or one of `sequences`.
    void check(std::span<const sequence_kv* const> sequences) const;

 private:
    got take_block(std::size_t group, block_id& b);
    bool grow(std::size_t group);
    bool evict_foreign(std::size_t group);

    model::kv_layout layout_;
    block_pool pool_;
    prefix_cache cache_;
    std::vector<kv_op> ops_;
    steady_time now_{}, blocked_until_{};
    int failures_ = 0;
};

}  // namespace troupe::actors
