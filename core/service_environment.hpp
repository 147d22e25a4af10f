// What systemd tells a service through its environment (sd_notify(3), sd_watchdog_enabled(3)).
#pragma once

#include <chrono>
#include <string>

namespace troupe {

struct service_environment {
    std::string socket;                     ///< NOTIFY_SOCKET; empty: nobody wants to hear
    std::chrono::microseconds watchdog{0};  ///< WATCHDOG_USEC, if meant for this process; 0: none
};
service_environment read_service_environment();

}  // namespace troupe
