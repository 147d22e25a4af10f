// What the KV memory holds, as the scheduler tells the compactor, and what the compactor has it do about it.
#pragma once

#include <cstdint>
#include <optional>

#include "core/clock.hpp"

namespace troupe::actors {

struct kv_usage {
    std::uint64_t segment_bytes = 0;
    std::int64_t segments_committed = 0, segments_max = 0;
    std::int64_t owned = 0, cached = 0, free = 0, unallocated = 0;  ///< blocks
    bool idle = false;                                              ///< nothing waits and nothing runs
    std::int64_t segments_needed = 0;                               ///< were what is in use packed together
    std::optional<steady_time> coldest;  ///< last use of what was not used for longest and could be evicted
    bool operator==(const kv_usage&) const = default;
};

/// Memory that is to go back to the device or the system, while serving.
struct memory_order {
    steady_time evict_before{};  ///< cached blocks last used before go; those of running sequences stay
    std::int64_t spare = 0;      ///< committed segments that may stay beyond what is needed
    bool at_once = false;        ///< nothing is saved to the disk first
    bool operator==(const memory_order&) const = default;
};

/// Pressure from outside, whenever it changes.
struct memory_pressure {
    bool refuse = false;          ///< new work must wait
    std::uint64_t available = 0;  ///< bytes
};

}  // namespace troupe::actors
