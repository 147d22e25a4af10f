#include "actors/compactor/policy.hpp"

#include <algorithm>

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;

constexpr auto release_after = 10s;      // a burst may come back
constexpr auto trim_every = 1s;          // blocks get cold one after the other
constexpr std::int64_t spare_least = 2;  // segments kept for the next sequence
constexpr std::int64_t spare_share = 8;  // or one in so many of those committed

/// From when on `holds` is true, seen at `now`.
void follow(std::optional<steady_time>& since, bool holds, steady_time now) {
    if (!holds)
        since.reset();
    else if (!since)
        since = now;
}

}  // namespace

std::int64_t compactor_policy::spare() const { return std::max(spare_least, last_.segments_committed / spare_share); }

void compactor_policy::usage(const kv_usage& u, steady_time now) {
    last_ = u;
    const std::int64_t slack = u.segments_committed - u.segments_needed;
    follow(slack_since_, slack > 0, now);
    follow(spare_since_, slack > spare(), now);
}

std::optional<steady_time> compactor_policy::cold_at() const {
    if (shrink_after_ == 0s || !last_.coldest) return std::nullopt;
    return std::max(*last_.coldest + shrink_after_, next_trim_);
}

std::optional<memory_order> compactor_policy::decide(steady_time now) {
    const bool unneeded = shrink_after_ > 0s && slack_since_ && now - *slack_since_ >= shrink_after_;
    if (cold_at() <= now && cold_at()) {
        next_trim_ = now + trim_every;
        last_.coldest.reset();
        slack_since_.reset();
        spare_since_.reset();
        return memory_order{now - shrink_after_ + 1ns, 0};
    }
    if (unneeded) {
        slack_since_.reset();
        spare_since_.reset();
        return memory_order{{}, 0};
    }
    if (spare_since_ && now - *spare_since_ >= release_after) {
        spare_since_.reset();
        return memory_order{{}, spare()};
    }
    return std::nullopt;
}

std::optional<steady_time> compactor_policy::wakeup() const {
    std::optional<steady_time> first = cold_at();
    const auto at = [&](steady_time t) { first = std::min(first.value_or(t), t); };
    if (shrink_after_ > 0s && slack_since_) at(*slack_since_ + shrink_after_);
    if (spare_since_) at(*spare_since_ + release_after);
    return first;
}

}  // namespace troupe::actors
