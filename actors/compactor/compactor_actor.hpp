// The compactor's actor: follows the scheduler's kv_usage and the system's memory, and tells the scheduler when to give
// memory back and when to take no new work. Its timer runs only while there is memory to give back.
#pragma once

#include <chrono>
#include <filesystem>

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

namespace troupe::actors {

/// Makes itself known to `scheduler`. shrink_after: see compactor_policy. memory_root: where /proc and /sys lie; empty:
/// pressure from outside is not looked at. Receives kv_usage, actor_fault; state_atom -> JSON; sends memory_order and
/// memory_pressure. Its successor knows nothing of it and needs nothing: what the scheduler holds is told anew.
caf::actor spawn_compactor(caf::actor_system& system, caf::actor scheduler, std::chrono::seconds shrink_after,
    std::filesystem::path memory_root = {});

}  // namespace troupe::actors
