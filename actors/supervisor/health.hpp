// What /health says, derived from what the supervisor knows. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "actors/supervisor/ladder.hpp"
#include "core/ports.hpp"

namespace troupe::actors {

enum class executor_phase : std::uint8_t {
    loading,  ///< a process is starting: weights, door, hello
    up,
    ending,    ///< told to die, not gone yet
    waiting,   ///< gone; the next start waits for its back-off
    sleeping,  ///< gone on purpose: the next request starts it
    down,      ///< the circuit is open, or the model cannot be loaded
    stopped,   ///< for good
};

struct health_facts {
    executor_phase phase = executor_phase::loading;
    bool ever_ready = false;
    bool answers = true;  ///< the last round trip came back in time
    bool asleep = false;  ///< phase ending: on its way to sleep; phase loading: waking up
    rung level = rung::full;
    std::string strained;  ///< degradation_ladder::reason()
    std::uint64_t epoch = 0, restarts = 0;
    std::string last_fault, down_reason;
    double load_progress = 0, probe_ms = 0;
};

health_report describe(const health_facts& f);

}  // namespace troupe::actors
