// What a service manager (systemd, Type=notify) hears from the server: READY, STATUS, WATCHDOG and STOPPING, as
// datagrams to NOTIFY_SOCKET. WATCHDOG=1 is only sent after a round trip through everything that must move: the I/O
// thread, the supervisor and the executor.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "core/ports.hpp"
#include "core/service_environment.hpp"

namespace troupe::cli {

class service_manager {
 public:
    /// Does nothing if nobody listens.
    explicit service_manager(service_environment e);
    ~service_manager();
    service_manager(const service_manager&) = delete;
    service_manager& operator=(const service_manager&) = delete;

    /// From here on the thread runs. `answers`: does the I/O thread, within this time. Both outlive stopping().
    void watch(engine_port& engine, std::function<bool(std::chrono::milliseconds)> answers);
    /// The model answers. Any thread.
    void ready();
    /// The level of degradation changed. Any thread.
    void look_again();
    /// Shutdown begins: the thread ends, nothing else is sent.
    void stopping();

 private:
    void run();
    bool look(std::unique_lock<std::mutex>& lock);
    std::chrono::milliseconds pause() const;
    bool say(const std::string& text) const;
    void end_thread();

    service_environment environment_;
    engine_port* engine_ = nullptr;
    std::function<bool(std::chrono::milliseconds)> answers_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool ready_ = false, told_ready_ = false, again_ = false, stopping_ = false;
    std::string told_;  ///< STATUS
    std::thread thread_;
};

/// Calls service_manager::look_again when the engine's level changes.
client_ptr level_listener(service_manager& m);

}  // namespace troupe::cli
