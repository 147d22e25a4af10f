// The scheduler's actor: hands messages to scheduler_policy, sends what it decides. No timer runs when nothing waits or
// runs.
#pragma once

#include <memory>

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include "actors/messages.hpp"
#include "actors/scheduler/policy.hpp"
#include "core/metrics.hpp"

namespace troupe::actors {

struct scheduler_setup {
    policy_settings settings;
    std::shared_ptr<metrics> meters;  ///< may be null
};

/// Answers the messages filed under "scheduler" in actors/messages.hpp. An owner that dies has its generations
/// cancelled. Metrics it keeps: requests by outcome, queue and running gauges, times to first token, between tokens,
/// end to end and in the queue, recovery and resumed, tokens, steps, preemptions, KV blocks, segments and bytes, prefix
/// cache.
caf::actor spawn_scheduler(caf::actor_system& system, scheduler_setup setup);

}  // namespace troupe::actors
