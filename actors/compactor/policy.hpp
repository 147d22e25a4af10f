// When KV memory goes back: what was not used for a while, and segments that were not needed for a while. Plain code;
// the time is passed in.
#pragma once

#include <chrono>
#include <optional>

#include "actors/kv_usage.hpp"
#include "core/clock.hpp"

namespace troupe::actors {

class compactor_policy {
 public:
    /// shrink_after: cached blocks that were not used for so long go, and so does memory not needed for so long; 0:
    /// never.
    explicit compactor_policy(std::chrono::seconds shrink_after) : shrink_after_(shrink_after) {}

    void usage(const kv_usage& u, steady_time now);
    /// What is due now. Ask again at wakeup().
    std::optional<memory_order> decide(steady_time now);
    std::optional<steady_time> wakeup() const;

 private:
    std::int64_t spare() const;
    std::optional<steady_time> cold_at() const;

    std::chrono::seconds shrink_after_;
    kv_usage last_;
    std::optional<steady_time> slack_since_, spare_since_;
    steady_time next_trim_{};
};

}  // namespace troupe::actors
