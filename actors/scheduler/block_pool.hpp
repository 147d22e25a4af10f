// The book-keeping of KV memory: which segments are committed, to which layer group, and who holds which of their
// blocks. Owns numbers, not bytes: what it decides reaches the executor as plan operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "actors/plan.hpp"
#include "model/kv_layout.hpp"

namespace troupe::actors {

using model::block_id;
using model::no_block;

/// Blocks of one group by state. owned: some sequence holds it; cached: only the prefix cache does.
struct block_counts {
    std::int64_t owned = 0, cached = 0, free = 0;
};

class block_pool {
 public:
    block_pool(const model::kv_layout& layout, std::uint64_t max_segments);

    std::size_t n_groups() const { return groups_.size(); }
    std::uint32_t blocks_per_segment(std::size_t group) const { return groups_[group].per_segment; }

    /// A free block with one reference, from the segment that is in use already and has the lowest number; nothing if
    /// the group's committed segments are full.
    std::optional<block_id> alloc(std::size_t group);
    void ref(std::size_t group, block_id b);
    void unref(std::size_t group, block_id b);
    /// The prefix cache's own reference: at most one a block. `holder`: the cache's word for where it stands.
    void cache_ref(std::size_t group, block_id b, void* holder = nullptr);
    void cache_unref(std::size_t group, block_id b);
    /// True if nobody but the cache holds it, so that evicting it gives a free block.
    bool only_cached(std::size_t group, block_id b) const;
    std::uint32_t refs(std::size_t group, block_id b) const;
    /// The cache's holder of a block; null: it is not in the cache.
    void* holder(std::size_t group, block_id b) const { return at(group, b).holder; }
    /// A block that is read or written beside the steps stays where it is until as many `unfix` as `fix` came.
    void fix(std::size_t group, block_id b);
    void unfix(std::size_t group, block_id b);

    // -- packing: live blocks move together so that segments become empty
    /// The committed segment of the group with fewest used blocks that can be emptied: none of them is fixed and all
    /// of them fit into the free blocks of fuller segments that are in use.
    std::optional<std::uint64_t> emptiable(std::size_t group) const;
    std::vector<block_id> used_blocks(std::uint64_t segment) const;
    /// Gives the block's references to a free block of the fullest other segment in use. Whoever has its number must be
    /// told the new one.
    block_id relocate(std::size_t group, block_id from);
    /// Free blocks the group will want soon; they count as needed.
    void want(std::size_t group, std::int64_t blocks) { groups_[group].wanted = blocks; }
    /// Segments that would hold everything in use and wanted, were it packed.
    std::int64_t needed_segments() const;

    /// Assigns an unallocated segment to a group. Its blocks can be used once `committed` says so.
    std::optional<kv_op> grow(std::size_t group);
    void committed(std::uint64_t segment, bool ok);
    /// Returns committed segments without a used block, highest number first; at most `limit` of them.
    std::vector<kv_op> release_empty(std::size_t limit = SIZE_MAX);
    /// One empty segment that belongs to another group than `group`.
    std::optional<kv_op> release_foreign(std::size_t group);

    const block_counts& counts(std::size_t group) const { return groups_[group].counts; }
    std::int64_t committing(std::size_t group) const { return groups_[group].committing; }  ///< segments asked for
    std::int64_t max_segments() const { return static_cast<std::int64_t>(segments_.size()); }
    std::int64_t unallocated_segments() const { return static_cast<std::int64_t>(unallocated_.size()); }
    std::int64_t committed_segments() const;
    std::int64_t empty_segments() const;
    /// Empty segments whose group is not `group`.
    std::int64_t foreign_empty_segments(std::size_t group) const;

    /// CHECKs the accounting from the ground up: free + cached + owned = total in every group, reference counts add up.
    void check() const;

 private:
    enum class state : std::uint8_t { unallocated, committing, committed };
    struct block {
        std::uint32_t refs = 0, fixed = 0;
        bool cached = false;
        void* holder = nullptr;
    };
    struct segment {
        state is = state::unallocated;
        std::uint32_t group = 0;
        std::vector<block> blocks;
        std::vector<std::uint32_t> free_slots;  ///< a stack
        std::int64_t fixed = 0;                 ///< sum over its blocks
        std::uint32_t used() const { return static_cast<std::uint32_t>(blocks.size() - free_slots.size()); }
    };
    struct group {
        std::uint32_t per_segment = 0;
        std::int64_t committing = 0, wanted = 0;
        block_counts counts;
        std::set<std::uint64_t> partly_free, empty;  ///< segments with free slots, by whether something is in them
    };

    block& at(std::size_t group, block_id b);
    const block& at(std::size_t group, block_id b) const;
    void drop(std::size_t group, block_id b);
    void free_slot(group& g, block_id b);
    std::int64_t& bucket(std::size_t group, const block& b);
    kv_op give_back(std::uint64_t index);

    std::vector<segment> segments_;
    std::vector<group> groups_;
    std::set<std::uint64_t> unallocated_;
};

}  // namespace troupe::actors
