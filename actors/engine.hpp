// The whole front engine behind two ports: builds the actor system, starts the actors, and takes them down again in
// order. Knows every actor; knows no socket.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "core/config.hpp"
#include "core/metrics.hpp"
#include "core/ports.hpp"
#include "core/result.hpp"

namespace troupe::actors {

/// Called on any thread, must not block, at most one of the two and at most once.
struct start_callbacks {
    std::function<void()> ready;  ///< the model answers: `/health` is not "loading" any more
    /// The model cannot be served: model_missing, model_malformed, model_unsupported, out_of_memory, not_ready (the
    /// executor never came up). info(code).exit_code is what the command line ends with.
    std::function<void(error)> failed;
};

class engine {
 public:
    /// Returns quickly; files are read and weights are loaded behind it. Errors here: errc::usage (the data directory
    /// belongs to another running engine, an option makes no sense), internal. A data directory that cannot be written
    /// is no error: the engine serves with `persistence: degraded`.
    static result<std::unique_ptr<engine>> start(
        const config& settings, start_callbacks callbacks, std::shared_ptr<metrics> meters);
    /// Shuts down (with the deadlines of core/limits.hpp) if nobody did.
    virtual ~engine() = default;

    virtual session_port& sessions() = 0;
    virtual engine_port& control() = 0;

    /// New work is refused with errc::shutting_down; returns true when no answer runs any more that is not journaled,
    /// false at the deadline. Blocks the caller. Answers of stored sessions go on at the next start.
    virtual bool drain(std::chrono::milliseconds deadline) = 0;
    /// Ends everything: running ephemeral answers with generation.error (shutting_down), journal flushed, executor told
    /// to exit, killed and reaped past its deadline, actor system down. Every open reply has been called when it
    /// returns; no client_port is called afterwards. Blocks the caller; false if actors had to be abandoned at the
    /// deadline. The ports may still be called, also afterwards: every reply is errc::shutting_down.
    virtual bool shutdown(std::chrono::milliseconds deadline) = 0;
};

}  // namespace troupe::actors
