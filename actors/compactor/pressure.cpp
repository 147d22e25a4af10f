#include "actors/compactor/pressure.hpp"

#include <algorithm>
#include <fstream>
#include <string>

#include "model/host_memory.hpp"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t mib = 1u << 20;

/// When a level is reached, and what is well enough to leave it.
struct threshold {
    std::uint64_t available, available_again;
    double stalled, stalled_again;
};
constexpr threshold tight{256 * mib, 384 * mib, 10, 5};
constexpr threshold too_short{128 * mib, 192 * mib, 20, 5};  // an executor commits nothing below 64 MiB and a segment

bool over(const threshold& t, std::uint64_t available, double stalled, bool already) {
    return available < (already ? t.available_again : t.available) ||
           stalled >= (already ? t.stalled_again : t.stalled);
}

/// Lines are "some avg10=1.23 avg60=..." and "full avg10=...".
void read_stall(const fs::path& path, memory_reading& r) {
    std::ifstream in(path);
    for (std::string kind, value; in >> kind >> value; in.ignore(1 << 10, '\n')) {
        const auto at = value.find('=');
        if (at == std::string::npos || value.compare(0, at, "avg10") != 0) continue;
        double& most = kind == "some" ? r.some_stalled : r.full_stalled;
        most = std::max(most, std::strtod(value.c_str() + at + 1, nullptr));
    }
}

}  // namespace

memory_reading read_memory(const fs::path& root) {
    memory_reading r;
    r.available = model::available_memory(root);
    read_stall(root / "proc/pressure/memory", r);
    std::ifstream in(root / "proc/self/cgroup");
    for (std::string line; std::getline(in, line);)
        if (line.starts_with("0::/")) read_stall(root / "sys/fs/cgroup" / line.substr(4) / "memory.pressure", r);
    return r;
}

pressure pressure_judge::judge(const memory_reading& r) {
    if (over(too_short, r.available, r.full_stalled, level_ == pressure::short_))
        level_ = pressure::short_;
    else
        level_ = over(tight, r.available, r.some_stalled, level_ != pressure::none) ? pressure::tight : pressure::none;
    return level_;
}

}  // namespace troupe::actors
