// The executor as other actors see it: a door that answers only the right cookie, and behind it the executor itself,
// which hands plans to the worker and answers for its counters. Nothing here waits for the worker.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include "actors/executor/worker.hpp"
#include "actors/messages.hpp"

namespace troupe::actors {

/// Where the worker's results go: set when a scheduler attaches, read by the worker thread.
class result_sink {
 public:
    void attach(caf::actor scheduler);
    void send(plan_result r);
    void send(kv_job_result r);

 private:
    caf::actor scheduler();

    std::mutex mutex_;
    caf::actor scheduler_;
};

/// What a loaded executor consists of.
struct executor_parts {
    std::shared_ptr<worker> work;
    std::shared_ptr<result_sink> sink;
    executor_info info;
    std::function<void()> link_lost = {};  ///< the front lives but cannot be reached any more; may be empty
};

/// Answers (hello_atom, cookie) with (caf::actor executor, executor_info), once; everything else and a wrong cookie is
/// errc::unauthorized. `admitted` runs after the right cookie came (to close the port).
/// The executor actor takes messages from the node that said hello, and from no other.
caf::actor spawn_door(
    caf::actor_system& system, executor_parts parts, std::string cookie, std::function<void()> admitted);

}  // namespace troupe::actors
