#include "actors/compactor/policy.hpp"

#include <algorithm>

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;

constexpr auto release_after = 10s;      // a burst may come back
constexpr std::int64_t spare_least = 2;  // empty segments kept for the next sequence
constexpr std::int64_t spare_share = 8;  // or one in so many of those committed

}  // namespace

bool compactor_policy::too_many_empty() const {
    return last_.segments_empty > std::max(spare_least, last_.segments_committed / spare_share);
}

void compactor_policy::usage(const kv_usage& u, steady_time now) {
    last_ = u;
    if (!u.idle || u.segments_committed == 0)
        idle_since_.reset();
    else if (!idle_since_)
        idle_since_ = now;
    if (!too_many_empty())
        spare_since_.reset();
    else if (!spare_since_)
        spare_since_ = now;
}

std::optional<compactor_policy::order> compactor_policy::decide(steady_time now) {
    if (shrink_after_ > 0s && idle_since_ && now - *idle_since_ >= shrink_after_) {
        idle_since_.reset();
        spare_since_.reset();
        return order{order::kind::shrink, 0};
    }
    if (spare_since_ && now - *spare_since_ >= release_after) {
        spare_since_.reset();
        return order{order::kind::release_empty, 0};
    }
    return std::nullopt;
}

std::optional<steady_time> compactor_policy::wakeup() const {
    std::optional<steady_time> first;
    const auto at = [&](steady_time t) { first = std::min(first.value_or(t), t); };
    if (shrink_after_ > 0s && idle_since_) at(*idle_since_ + shrink_after_);
    if (spare_since_) at(*spare_since_ + release_after);
    return first;
}

}  // namespace troupe::actors
