// The listener and its I/O thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "core/config.hpp"
#include "core/metrics.hpp"
#include "core/ports.hpp"
#include "core/result.hpp"

namespace troupe::net {

class server {
 public:
    /// Binds and starts accepting on a thread of its own. address_in_use (naming the holder if it can be found), usage
    /// for a bad address, certificate or key file.
    static result<std::unique_ptr<server>> start(
        const config& c, session_port& sessions, engine_port& engine, troupe::metrics& m, std::string version);
    virtual ~server() = default;

    virtual std::uint16_t port() const = 0;
    virtual std::string url() const = 0;  ///< "http://127.0.0.1:8080"
    virtual void stop_accepting() = 0;
    /// Closes all connections and joins the thread; what is not closed by the deadline is cut.
    virtual void shutdown(std::chrono::milliseconds deadline) = 0;
    /// A round trip through the I/O thread. Blocks the caller; false if it does not come back in time.
    virtual bool answers(std::chrono::milliseconds within) = 0;
    /// SIGHUP: keys and certificates are read again; failures keep the old ones and are logged.
    virtual void reload() = 0;
};

}  // namespace troupe::net
