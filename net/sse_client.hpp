// A client_port that writes a server-sent event stream: events are posted to the I/O thread, queued bytes are bounded,
// comment lines keep proxies awake.
#pragma once

#include <memory>
#include <string>

#include "core/limits.hpp"
#include "core/metrics.hpp"
#include "core/ports.hpp"
#include "net/http_types.hpp"

namespace troupe::net {

class sse_client : public client_port, public std::enable_shared_from_this<sse_client> {
 public:
    sse_client(exchange_ptr x, metrics& m) : exchange_(std::move(x)), metrics_(m) {}

    void deliver(event_ptr e, std::string_view request_id) final {
        exchange_->post(
            [self = shared_from_this(), e = std::move(e), id = std::string(request_id)] { self->on_event(*e, id); });
    }

 protected:
    /// On the I/O thread.
    virtual void on_event(const event& e, const std::string& request_id) = 0;

    /// Sends the head of the stream (contracts: no-cache, no proxy buffering) and starts the pings.
    void open();
    bool is_open() const { return stream_ != nullptr; }
    void write(std::string frame);
    void finish();

    exchange_ptr exchange_;
    metrics& metrics_;

 private:
    void ping_later();
    std::shared_ptr<byte_stream> stream_;
    bool wrote_ = false;
};

}  // namespace troupe::net
