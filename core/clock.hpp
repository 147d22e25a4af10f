// Time that can be passed in: decision code never reads a clock of its own.
#pragma once

#include <chrono>
#include <cstdint>

namespace troupe {

using steady_time = std::chrono::steady_clock::time_point;
using duration = std::chrono::nanoseconds;

/// Unix time in milliseconds.
inline std::int64_t unix_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

inline double to_ms(std::chrono::nanoseconds d) { return std::chrono::duration<double, std::milli>(d).count(); }

}  // namespace troupe
