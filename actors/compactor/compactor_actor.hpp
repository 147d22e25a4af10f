// The compactor's actor: follows the scheduler's kv_usage and tells it when to give memory back. Its timer runs only
// while there is memory to give back.
#pragma once

#include <chrono>

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

namespace troupe::actors {

/// Makes itself known to `scheduler`. shrink_after: see compactor_policy. Receives kv_usage, actor_fault; state_atom ->
/// JSON. Its successor knows nothing of it and needs nothing: what the scheduler holds is told anew.
caf::actor spawn_compactor(caf::actor_system& system, caf::actor scheduler, std::chrono::seconds shrink_after);

}  // namespace troupe::actors
