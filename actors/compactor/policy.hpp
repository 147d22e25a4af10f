// When KV memory goes back: everything after a while without work, empty segments after a while of not being needed.
// Plain code; the time is passed in.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "actors/kv_usage.hpp"
#include "core/clock.hpp"

namespace troupe::actors {

class compactor_policy {
 public:
    /// shrink_after: of idle time until the cache is evicted and everything returned; 0: never.
    explicit compactor_policy(std::chrono::seconds shrink_after) : shrink_after_(shrink_after) {}

    struct order {
        enum class kind : std::uint8_t { release_empty, shrink } what = kind::release_empty;
        std::uint64_t bytes = 0;  ///< shrink: what may stay committed
        bool operator==(const order&) const = default;
    };

    void usage(const kv_usage& u, steady_time now);
    /// What is due now. Ask again at wakeup().
    std::optional<order> decide(steady_time now);
    std::optional<steady_time> wakeup() const;

 private:
    bool too_many_empty() const;

    std::chrono::seconds shrink_after_;
    kv_usage last_;
    std::optional<steady_time> idle_since_, spare_since_;
};

}  // namespace troupe::actors
