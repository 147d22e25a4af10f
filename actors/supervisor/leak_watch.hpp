// Does a process grow without end? The slope of its memory over hours, from one sample a minute. Plain code; the time
// is passed in.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>

#include "core/clock.hpp"

namespace troupe::actors {

inline constexpr std::chrono::seconds memory_sampled_every{60};

struct memory_sample {
    steady_time at{};
    double bytes = 0;
};
/// Bytes an hour: the median of the slopes between all pairs (Theil and Sen), which a few outliers do not move.
/// nullopt with fewer than two.
std::optional<double> slope_per_hour(std::span<const memory_sample> samples);
/// Share of all pairs whose later sample is larger (Kendall): near a half for noise and for a single step, 1 for a
/// leak.
double rising_share(std::span<const memory_sample> samples);

/// Keeps the least of every ten minutes, six hours of them: work comes and goes, what leaks stays.
class leak_watch {
 public:
    struct verdict {
        double bytes_per_hour = 0;
        bool leaking = false;
        bool news = false;  ///< `leaking` has changed
    };
    /// `process`: another number begins anew. A verdict from two hours on, once every ten minutes.
    std::optional<verdict> add(std::int64_t process, double bytes, steady_time now);

 private:
    std::int64_t process_ = 0;
    std::deque<memory_sample> lows_;  ///< of the finished tens of minutes
    memory_sample low_;               ///< of the one that runs
    steady_time since_{};
    bool any_ = false, leaking_ = false;
};

/// RssAnon + VmSwap of a process, in bytes; 0 if it cannot be read. (What swap hides is memory too.)
std::uint64_t private_bytes(std::int64_t pid);

}  // namespace troupe::actors
