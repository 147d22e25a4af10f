// Faults a person armed inside the executor (POST /admin/faults with --fault-injection): when they are due, and the
// fatal ones.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "actors/plan.hpp"

namespace troupe::actors {

inline constexpr int device_lost_exit = 70;  ///< exit code of an executor whose device is gone
inline constexpr int fault_exit = 71;        ///< exit code of fault kind `exit`

/// What `fired` says after the kind of a fault that waited for a watched request: it is not the one that waited for
/// none.
inline constexpr std::string_view watched_suffix = " (watched)";

/// crash, abort, exit, hang, device_lost end the process (or must be ended); nan, slow, alloc_fail do not.
bool known_fault(std::string_view kind);
bool fatal_fault(std::string_view kind);

class fault_injector {
 public:
    /// `fired` hears a kind just before it fires, so that the firing is counted even if nothing comes after it.
    explicit fault_injector(std::function<void(std::string_view)> fired) : fired_(std::move(fired)) {}

    /// Any thread. False if the kind is unknown.
    bool arm(const executor_fault& f);

    struct step_faults {
        bool nan = false, nan_watched_only = false;
        std::int64_t slow_ms = 0;
    };
    /// At the start of a step that has rows. Fatal faults that are due do not return.
    step_faults begin_step(bool watched);
    /// True if this commit of memory is to fail.
    bool fail_commit();

 private:
    struct armed {
        std::string kind;
        std::int64_t steps_left = 0, times = 0, slow_ms = 0;
        bool only_watched = false;
    };
    void count(armed& f);

    std::function<void(std::string_view)> fired_;
    std::mutex mutex_;
    std::vector<armed> armed_;
};

}  // namespace troupe::actors
