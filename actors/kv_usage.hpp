// What the KV memory holds, as the scheduler tells the compactor.
#pragma once

#include <cstdint>

namespace troupe::actors {

struct kv_usage {
    std::uint64_t segment_bytes = 0;
    std::int64_t segments_committed = 0, segments_empty = 0, segments_max = 0;
    std::int64_t owned = 0, cached = 0, free = 0, unallocated = 0;  ///< blocks
    bool idle = false;                                              ///< nothing waits and nothing runs
    bool operator==(const kv_usage&) const = default;
};

}  // namespace troupe::actors
