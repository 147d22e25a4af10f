// What the server's connections share: the services, the I/O context, and a set to close them all by.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_set>

#include <boost/asio/io_context.hpp>

#include "net/any_stream.hpp"
#include "net/routes.hpp"

namespace troupe::net {

class connection : public std::enable_shared_from_this<connection> {
 public:
    virtual ~connection() = default;
    virtual void start() = 0;
    /// Server shutdown: end what is open (streams have got their final event by then) and close.
    virtual void close() = 0;
    /// Since when it only waits for a request; none if it is at work. Such ones give way when there are too many.
    virtual std::optional<std::chrono::steady_clock::time_point> idle_since() const { return {}; }
};

/// Lives as long as the I/O thread. Only that thread touches it.
struct connection_context {
    boost::asio::io_context& io;
    router& routes;
    std::unordered_set<std::shared_ptr<connection>> open = {};
    bool closing = false;
    std::size_t max_open = 0, websockets = 0;
};

std::shared_ptr<connection> make_http_connection(connection_context& c, std::unique_ptr<transport> t);

/// What the HTTP side read of an upgrade request, for the WebSocket side.
struct upgrade {
    std::unique_ptr<any_stream> stream;
    std::string early_bytes;  ///< read past the request
    void* request = nullptr;  ///< boost::beast::http::request<string_body>*, valid during the call
    http_request meta;
    bool authenticated = false;
};
std::shared_ptr<connection> make_websocket_connection(connection_context& c, upgrade u);

}  // namespace troupe::net
