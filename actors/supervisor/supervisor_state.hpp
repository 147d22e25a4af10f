// The supervisor's memory of what happened, and its JSON for /admin/state.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "actors/executor/progress_page.hpp"
#include "actors/messages.hpp"
#include "actors/supervisor/fault_book.hpp"
#include "actors/supervisor/recovery_log.hpp"
#include "core/ports.hpp"

namespace troupe::actors {

struct supervisor_event {
    std::int64_t time = 0;  ///< Unix ms
    std::string event;      ///< starting, ready, fault, restarting, circuit_open, fault_armed, fault_fired,
                            ///< degraded, restored, unloading, sleeping, warning, stopped
    std::uint64_t epoch = 0;
    std::string detail;
};

/// The newest limits::supervisor_events_kept.
class event_log {
 public:
    /// Also writes the event to the log.
    void add(std::string event, std::uint64_t epoch, std::string detail);
    const std::deque<supervisor_event>& events() const { return events_; }

 private:
    std::deque<supervisor_event> events_;
};

/// JSON object; `info` only while an executor is up, `page` may be null.
std::string state_json(const health_report& health, const std::optional<executor_info>& info, const progress_page* page,
    const fault_book& faults, const event_log& log, const recovery_log& recoveries);

}  // namespace troupe::actors
