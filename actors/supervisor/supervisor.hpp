// The supervisor: starts the executor, notices that it died or hangs, restarts it with back-off, and answers for its
// health.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include "actors/executor/arguments.hpp"
#include "actors/executor/backend.hpp"
#include "actors/messages.hpp"
#include "actors/supervisor/child_host.hpp"
#include "actors/supervisor/leak_watch.hpp"
#include "core/ports.hpp"
#include "core/result.hpp"

namespace troupe::actors {

struct supervisor_settings {
    executor_arguments executor;
    bool fault_injection = false;          ///< else fault_spec is errc::forbidden
    std::chrono::seconds unload_after{0};  ///< of idle time until the executor is put to sleep; 0: never
    std::function<std::uint64_t(std::int64_t pid)> memory_of = private_bytes;
};

/// Called on an actor thread; must not block.
struct supervisor_callbacks {
    /// Once: the first incarnation is ready, or why the model cannot be served: model_missing, model_malformed,
    /// model_unsupported, out_of_memory (as the executor said), not_ready (it died again and again before it was
    /// ready).
    std::function<void(result<executor_info>)> first_start;
    /// `status`, `reasons` or `level` changed. Not called for epoch, restarts and probe_ms alone.
    std::function<void(const health_report&)> health_changed;
    /// Every ten minutes from the second hour on: how "front" and "executor" grow; `warning` when one begins to leak.
    std::function<void(const std::string& process, double bytes_per_hour, bool warning)> memory_trend;
};

/// Numbers for metrics. Answer to counters_atom.
struct supervisor_counters {
    std::map<std::string, std::uint64_t>
        restarts;  ///< by reason: crash, abort, hang, exit, killed, oom_killed, device_lost, operator
    std::vector<double> recovery_seconds;  ///< of restarts since the last question: death noticed -> ready again
    std::int32_t executor_pid = 0;         ///< 0: none, or in this process
};

/// Runs the executor as a child process: `program` (default: this very program) with `program_words` before the
/// arguments. `record`: file where the child is written down for the next front (see predecessor.hpp); empty: none.
std::unique_ptr<child_host> make_process_host(caf::actor_system& system, executor_arguments arguments,
    std::string record = {}, std::string program = "/proc/self/exe",
    std::vector<std::string> program_words = {"executor"});
/// Runs it inside this process (--executor=inline): cannot be restarted, faults that stop a process are refused.
std::unique_ptr<child_host> make_inline_host(caf::actor_system& system, executor_arguments arguments);
std::unique_ptr<child_host> make_inline_host(caf::actor_system& system, backend_loader load);

/// Messages the supervisor answers:
///   (health_atom)   -> health_report: a round trip to the executor of at most health_probe_deadline, cached
///                     for health_cache
///   (restart_atom)  -> bool, when the successor is ready; errors: not_ready, unsupported_parameter (inline)
///   (unload_atom)   -> bool, when the executor is gone; everything that waited or ran has ended with not_ready. The
///                     next request starts it again. errors: unsupported_parameter (inline), shutting_down
///   (fault_spec)    -> bool, when armed; errors: forbidden, invalid_request (kind), unsupported_parameter (target,
///                     inline)
///   (counters_atom) -> supervisor_counters
///   (state_atom)    -> std::string: JSON object {status, epoch, restarts, pid, executor{...}, faults[...],
///   events[...]} (drain_atom)    -> bool: stops the executor for good (exit deadline, then SIGKILL, reaped) and quits;
///   last message
/// It sends to `scheduler`: executor_up (ready; the scheduler is attached already), executor_down (really gone, or put
/// to sleep), step_bounds (the degradation level changed), activity_atom (it wants to know when there is work), and
/// (fault_spec) when a fault with request_contains is armed: the scheduler sets watch_text where a prompt contains it.
caf::actor spawn_supervisor(caf::actor_system& system, supervisor_settings settings, std::unique_ptr<child_host> host,
    caf::actor scheduler, supervisor_callbacks callbacks);

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::supervisor_counters)
