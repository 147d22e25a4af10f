// Turns what the scheduler counted since last time into metrics.
#pragma once

#include <memory>

#include "actors/scheduler/policy.hpp"
#include "core/metrics.hpp"

namespace troupe::actors {

class meter_reader {
 public:
    explicit meter_reader(std::shared_ptr<metrics> meters) : meters_(std::move(meters)) {}
    void read(scheduler_policy& policy);

 private:
    std::shared_ptr<metrics> meters_;
    scheduler_counters last_;
    std::int64_t longest_ = 0;
};

}  // namespace troupe::actors
