// Reads /proc/meminfo and the cgroup files; maps and populates anonymous pages.
#include "model/host_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace troupe::model {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

/// The number after `key` in a file of "key value" lines, or the file's first number if key is empty.
std::optional<std::uint64_t> number_in(const fs::path& path, std::string_view key) {
    std::ifstream in(path);
    std::string word;
    std::uint64_t value = 0;
    if (key.empty()) return in >> value ? std::optional(value) : std::nullopt;
    while (in >> word)
        if (word == key) return in >> value ? std::optional(value) : std::nullopt;
    return std::nullopt;
}

struct cgroup_files {
    const char *limit, *usage, *inactive, *active;
};

/// The least headroom from `group` up to the hierarchy's root. A file that is missing or says "max" limits nothing.
std::uint64_t headroom(const fs::path& hierarchy, fs::path group, const cgroup_files& files) {
    std::uint64_t least = unlimited;
    for (;;) {
        const fs::path dir = hierarchy / group.relative_path();
        const auto limit = number_in(dir / files.limit, "");
        const auto usage = number_in(dir / files.usage, "");
        if (limit && usage) {
            // File pages can be dropped; of those in use only a half counts, so that not all of a mapped model has to
            // go.
            const auto stat = [&](const char* key) { return number_in(dir / "memory.stat", key).value_or(0); };
            const std::uint64_t droppable = stat(files.inactive) + stat(files.active) / 2;
            const std::uint64_t used = *usage - std::min(*usage, droppable);
            least = std::min(least, *limit - std::min(*limit, used));
        }
        if (!group.has_relative_path()) return least;
        group = group.parent_path();
    }
}

/// Lines of /proc/self/cgroup are "0::/path" (v2) or "4:memory:/path" (v1).
std::uint64_t cgroup_headroom(const fs::path& root) {
    std::ifstream in(root / "proc/self/cgroup");
    std::uint64_t least = unlimited;
    for (std::string line; std::getline(in, line);) {
        const auto first = line.find(':'), second = line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
        if (controllers.empty())
            least = std::min(least, headroom(root / "sys/fs/cgroup", group,
                                        {"memory.max", "memory.current", "inactive_file", "active_file"}));
        else if (controllers == "memory")
            least = std::min(least,
                headroom(root / "sys/fs/cgroup/memory", group,
                    {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file"}));
    }
    return least;
}

std::string mib(std::uint64_t bytes) { return std::to_string((bytes + (1u << 20) - 1) >> 20) + " MiB"; }

error short_of_memory(std::uint64_t bytes, std::string_view what) {
    return fail(
        errc::out_of_memory, std::string(what) + " needs " + mib(bytes) + ", available are " + mib(available_memory()));
}

}  // namespace

std::uint64_t available_memory(const fs::path& root) {
    const auto kib = number_in(root / "proc/meminfo", "MemAvailable:");
    return std::min(kib ? *kib << 10 : unlimited, cgroup_headroom(root));
}

result<void> check_memory(std::uint64_t bytes, std::string_view what) {
    if (bytes > available_memory()) return short_of_memory(bytes, what);
    return {};
}

bool populate_pages(std::byte* data, std::size_t size) {
#ifdef MADV_POPULATE_WRITE
    if (madvise(data, size, MADV_POPULATE_WRITE) == 0) return true;
    if (errno != EINVAL) return false;
#endif
    for (std::size_t at = 0; at < size; at += 4096) *static_cast<volatile std::byte*>(data + at) = std::byte{0};
    return true;
}

result<anonymous_memory> anonymous_memory::map(std::uint64_t bytes, std::string_view what, bool populate) {
    if (populate) TROUPE_TRYV(check_memory(bytes, what));
    if (bytes > unlimited / 4) return short_of_memory(bytes, what);
    anonymous_memory memory;
    const std::size_t size = std::max<std::uint64_t>(bytes, 1), padded = size + huge_page;
    void* p = mmap(nullptr, padded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return short_of_memory(bytes, what);
    memory.mapped_ = p;
    memory.mapped_size_ = padded;
    memory.data_ =
        reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(p) + huge_page - 1) / huge_page * huge_page);
    memory.size_ = size;
    if (!populate) return memory;
    madvise(memory.data_, size, MADV_HUGEPAGE);  // a wish: without it everything works, slower
    if (!populate_pages(memory.data_, size)) return short_of_memory(bytes, what);
    return memory;
}

anonymous_memory::~anonymous_memory() {
    if (mapped_ != nullptr) munmap(mapped_, mapped_size_);
}

}  // namespace troupe::model
