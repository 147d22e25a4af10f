// What can happen in one simulated run: sizes, faults and their chances, all drawn from a seed.
#pragma once

#include <cstdint>

#include "actors/plan.hpp"
#include "actors/scheduler/policy.hpp"

namespace troupe::actors::sim {

struct world {
    std::uint64_t seed = 1;
    int steps = 1000;  ///< happenings until nothing new begins and everything must come to its end
    int n_conversations = 12, n_clients = 3;
    double stored = 0.6;    ///< share of conversations that are sessions (the others are lone HTTP requests)
    double think_ms = 200;  ///< between an answer and the next message, on average
    policy_settings settings;
    executor_info info;
    std::int64_t longest = 0;  ///< sequence that fits into memory and context
    int shrink_after_s = 0;
    double load_ms = 100;

    // -- the executor: chances at every message, step or start
    double death = 0;                       ///< at a message or within a step
    bool deaths_look_like_crashes = false;  ///< else like kills from outside, of which nobody is suspected
    double hang = 0, slow = 0, load_failure = 0, void_rows = 0;
    double stale = 0;  ///< what a dead executor said last arrives late; its death is told twice
    double commit_failure = 0, memory_short = 0;  ///< of one commit; chance at a step that for a while none succeeds
    // -- requests
    double cancel = 0, leave = 0, stop_string = 0, batch = 0;
    int killers = 0, not_finite = 0;
    // -- the front: chances at every message
    double session_crash = 0, store_crash = 0, front_kill = 0, disk_fails = 0;
    double shrink = 0;  ///< an operator compacts, or memory must go back for other reasons
    // -- the disk tier
    std::uint64_t kv_disk = 0;  ///< bytes
    double image_damage = 0;    ///< of an image, whenever a job is done
};

/// Sizes, windows, memory and faults drawn from the seed.
world draw_world(std::uint64_t seed, int steps);

}  // namespace troupe::actors::sim
