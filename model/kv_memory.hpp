// The bytes behind kv_layout: one reserved address range whose segments are committed and returned while the model
// serves.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/result.hpp"
#include "model/kv_layout.hpp"

namespace troupe::model {

/// commit and release may run beside a forward pass, but only on segments no plan in flight touches. Two calls on the
/// same segment at once are a bug of the caller.
class kv_memory {
 public:
    /// Reserves addresses for `n_segments` (no memory). out_of_memory if the address space refuses.
    static result<std::unique_ptr<kv_memory>> reserve(const kv_layout& layout, std::uint32_t n_segments);
    ~kv_memory();
    kv_memory(const kv_memory&) = delete;
    kv_memory& operator=(const kv_memory&) = delete;

    std::byte* base() const { return base_; }  ///< 2 MiB aligned; what model::forward takes
    std::uint32_t n_segments() const { return n_segments_; }
    std::uint64_t committed_bytes() const {
        return n_committed_.load(std::memory_order_relaxed) * layout_.segment_bytes;
    }
    bool committed(std::uint32_t segment) const;

    /// Gives a segment its pages, all zero and all present, so that no later step can fault or run out of memory. Takes
    /// milliseconds: call it off the step path. out_of_memory (with numbers) if the host or the cgroup is short of
    /// segment + `reserve_bytes`.
    result<void> commit(std::uint32_t segment, std::uint64_t reserve_bytes = 0);
    /// Returns the pages to the system; what the segment held is gone.
    void release(std::uint32_t segment);

    /// A block's bytes. May be used beside a forward pass if no plan in flight touches the block.
    std::span<std::byte> bytes(std::size_t group, block_id b) {
        return {block(group, b), layout_.groups[group].block_bytes};
    }
    /// Blocks of one group; both segments must be committed. For shared partial blocks and for moving.
    void copy_block(std::size_t group, block_id from, block_id to);
    /// A block that is handed out again must be zeroed: a stale NaN behind the last token would survive 0 x NaN.
    void zero_block(std::size_t group, block_id b);

 private:
    kv_memory(const kv_layout& layout, std::uint32_t n_segments, void* mapped);
    std::byte* block(std::size_t group, block_id b) const;

    kv_layout layout_;
    std::uint32_t n_segments_;
    void* mapped_;  ///< what mmap gave; base_ is its first 2 MiB boundary
    std::byte* base_;
    std::vector<std::atomic<bool>> committed_;
    std::atomic<std::uint32_t> n_committed_{0};
};

}  // namespace troupe::model
