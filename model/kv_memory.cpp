// Segments are mprotect'ed in and populated at commit, dropped with MADV_DONTNEED (whose next touch reads zero) at
// release.
#include "model/kv_memory.hpp"

#include <sys/mman.h>

#include <cstring>
#include <string>

#include "core/check.hpp"
#include "model/host_memory.hpp"

namespace troupe::model {
namespace {

std::size_t reserved_bytes(const kv_layout& layout, std::uint32_t n_segments) {
    return layout.segment_bytes * n_segments + huge_page;
}

}  // namespace

kv_memory::kv_memory(const kv_layout& layout, std::uint32_t n_segments, void* mapped)
    : layout_(layout), n_segments_(n_segments), mapped_(mapped),
      base_(reinterpret_cast<std::byte*>(
          (reinterpret_cast<std::uintptr_t>(mapped) + huge_page - 1) / huge_page * huge_page)),
      committed_(n_segments) {}

result<std::unique_ptr<kv_memory>> kv_memory::reserve(const kv_layout& layout, std::uint32_t n_segments) {
    CHECK(layout.segment_bytes > 0 && layout.segment_bytes % huge_page == 0);
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(layout.segment_bytes, static_cast<std::uint64_t>(n_segments), &bytes) ||
        bytes > SIZE_MAX / 2)
        return fail(
            errc::out_of_memory, "the KV range of " + std::to_string(n_segments) + " segments has no addresses");
    void* p = mmap(
        nullptr, reserved_bytes(layout, n_segments), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return fail(errc::out_of_memory,
            "the system refuses " + std::to_string(bytes >> 20) + " MiB of addresses for KV memory");
    return std::unique_ptr<kv_memory>(new kv_memory(layout, n_segments, p));
}

kv_memory::~kv_memory() { munmap(mapped_, reserved_bytes(layout_, n_segments_)); }

bool kv_memory::committed(std::uint32_t segment) const {
    CHECK(segment < n_segments_);
    return committed_[segment].load(std::memory_order_acquire);
}

result<void> kv_memory::commit(std::uint32_t segment, std::uint64_t reserve_bytes) {
    CHECK(!committed(segment), "commit of a committed segment");
    TROUPE_TRYV(check_memory(layout_.segment_bytes + reserve_bytes, "a KV segment and the reserve"));
    std::byte* at = base_ + segment * layout_.segment_bytes;
    if (mprotect(at, layout_.segment_bytes, PROT_READ | PROT_WRITE) != 0)
        return fail(errc::out_of_memory, "the system refuses a KV segment");
    madvise(at, layout_.segment_bytes, MADV_HUGEPAGE);  // a wish: without it everything works, slower
    if (!populate_pages(at, layout_.segment_bytes)) {
        madvise(at, layout_.segment_bytes, MADV_DONTNEED);
        mprotect(at, layout_.segment_bytes, PROT_NONE);
        return fail(errc::out_of_memory,
            "the system has no pages for a KV segment of " + std::to_string(layout_.segment_bytes >> 20) + " MiB");
    }
    committed_[segment].store(true, std::memory_order_release);
    n_committed_.fetch_add(1, std::memory_order_relaxed);
    return {};
}

void kv_memory::release(std::uint32_t segment) {
    CHECK(committed(segment), "release of a segment that is not committed");
    std::byte* at = base_ + segment * layout_.segment_bytes;
    committed_[segment].store(false, std::memory_order_release);
    n_committed_.fetch_sub(1, std::memory_order_relaxed);
    CHECK(madvise(at, layout_.segment_bytes, MADV_DONTNEED) == 0);
    CHECK(mprotect(at, layout_.segment_bytes, PROT_NONE) == 0);
}

std::byte* kv_memory::block(std::size_t group, block_id b) const {
    CHECK(group < layout_.groups.size());
    CHECK(committed(static_cast<std::uint32_t>(layout_.segment_of(group, b))),
        "block of a segment that is not committed");
    return base_ + layout_.offset(group, b);
}

void kv_memory::copy_block(std::size_t group, block_id from, block_id to) {
    CHECK(from != to);
    std::memcpy(block(group, to), block(group, from), layout_.groups[group].block_bytes);
}

void kv_memory::zero_block(std::size_t group, block_id b) {
    std::memset(block(group, b), 0, layout_.groups[group].block_bytes);
}

}  // namespace troupe::model
