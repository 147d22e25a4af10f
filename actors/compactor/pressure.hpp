// Pressure on memory from outside: what the system says about it, and what that means. The judging is plain code; the
// reading takes files below a root, so that tests can write them.
#pragma once

#include <cstdint>
#include <filesystem>

namespace troupe::actors {

struct memory_reading {
    std::uint64_t available = 0;                ///< bytes: MemAvailable, or less if a cgroup leaves less
    double some_stalled = 0, full_stalled = 0;  ///< percent of the last 10 s (PSI): something, everything waited
};
/// Of the machine and of this process's cgroup, whichever is worse. What cannot be read presses nobody.
memory_reading read_memory(const std::filesystem::path& root);

enum class pressure : std::uint8_t {
    none,
    tight,  ///< what is only cached should go back
    short_  ///< new work should not begin
};

/// With a distance between coming and going, so that it does not flutter.
class pressure_judge {
 public:
    pressure judge(const memory_reading& r);
    pressure level() const { return level_; }

 private:
    pressure level_ = pressure::none;
};

}  // namespace troupe::actors
