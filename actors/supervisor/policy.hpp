// When to restart an executor, when it is stuck, and what a death was: plain decisions over plain structs, no clock of
// their own.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "actors/supervisor/child_exit.hpp"
#include "core/clock.hpp"

namespace troupe::actors {

enum class death_cause : std::uint8_t {
    crash,
    abort,
    hang,
    exit,
    killed,
    oom_killed,
    device_lost,
    load_failed,
    operator_restart
};
std::string_view name(death_cause c);

struct death_facts {
    child_exit exit;
    bool load_failed = false;       ///< it said so
    bool stuck = false;             ///< we killed it for that
    bool operator_restart = false;  ///< we killed it for that
};
death_cause classify(const death_facts& d);
/// For a person: "crash (signal 11)".
std::string describe(death_cause c, const child_exit& e);

class restart_policy {
 public:
    struct death {
        death_cause cause{};
        bool was_ready = false;
        bool stepped = false;  ///< a step was completed in this incarnation
    };
    struct decision {
        bool circuit_open = false;  ///< level down; the delay is until the next try
        std::chrono::milliseconds delay{0};
    };
    /// `jitter` in [0, 1): spreads delays over 75 % .. 125 %.
    decision on_death(const death& d, double jitter);
    /// An operator's restart starts from nothing.
    void reset() { deaths_ = 0; }
    int deaths_in_a_row() const { return deaths_; }

 private:
    int deaths_ = 0;  ///< without a completed step in between
};

/// How long progress may stand still: measured time of a tick x 8, at least 2 s.
duration progress_deadline(std::uint64_t tick_ns);

/// Tells slow from stuck: something counts upwards while there is work.
class stall_watch {
 public:
    void reset(steady_time now) { since_ = now; }
    /// How long `counter` has stood still while `busy`. Idle is not stuck.
    duration observe(steady_time now, std::uint64_t counter, bool busy);

 private:
    steady_time since_{};
    std::uint64_t last_ = 0;
};

/// When an executor without work is put to sleep.
class idle_watch {
 public:
    /// unload_after: of idle time; 0: never.
    explicit idle_watch(std::chrono::seconds unload_after) : unload_after_(unload_after) {}
    void work(bool idle, steady_time now) {
        idle_ = idle;
        since_ = now;
    }
    bool idle() const { return idle_; }
    /// nullopt: not as things are.
    std::optional<steady_time> due() const {
        if (!idle_ || unload_after_.count() == 0) return std::nullopt;
        return since_ + unload_after_;
    }

 private:
    std::chrono::seconds unload_after_;
    bool idle_ = true;
    steady_time since_{};
};

}  // namespace troupe::actors
