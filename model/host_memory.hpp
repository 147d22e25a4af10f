// What the host can still give, and anonymous memory taken from it: checked first, zeroed, aligned for huge pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "core/result.hpp"

namespace troupe::model {

inline constexpr std::uint64_t huge_page = 2u << 20;

/// Bytes this process may still take: the smaller of MemAvailable and the headroom of its memory cgroup (v2, v1) and of
/// every cgroup above it. File pages a cgroup could drop count as free. `root` is where /proc and /sys lie (tests).
std::uint64_t available_memory(const std::filesystem::path& root = "/");

/// out_of_memory naming `what` with the numbers if `bytes` are not there.
result<void> check_memory(std::uint64_t bytes, std::string_view what);

/// Private zeroed pages, 2 MiB aligned, huge where the kernel allows it.
class anonymous_memory {
 public:
    anonymous_memory() = default;
    /// Pages are there when this returns if `populate`, else on first touch. out_of_memory if the map is refused.
    static result<anonymous_memory> map(std::uint64_t bytes, std::string_view what, bool populate);
    ~anonymous_memory();
    anonymous_memory(anonymous_memory&& other) noexcept { swap(other); }
    anonymous_memory& operator=(anonymous_memory&& other) noexcept { return swap(other), *this; }

    std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
    void swap(anonymous_memory& other) noexcept {
        std::swap(mapped_, other.mapped_);
        std::swap(mapped_size_, other.mapped_size_);
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
    }

    void* mapped_ = nullptr;  ///< what mmap gave; data_ is its first 2 MiB boundary
    std::size_t mapped_size_ = 0;
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

/// Touches every page of a mapped, writable range. False if the memory is not there.
bool populate_pages(std::byte* data, std::size_t size);

}  // namespace troupe::model
