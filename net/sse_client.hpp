// Writing a server-sent event stream: queued bytes are bounded, comment lines keep proxies awake.
#pragma once

#include <memory>
#include <string>

#include "core/limits.hpp"
#include "core/metrics.hpp"
#include "core/ports.hpp"
#include "net/http_types.hpp"

namespace troupe::net {

/// All calls on the I/O thread.
class sse_writer : public std::enable_shared_from_this<sse_writer> {
 public:
    sse_writer(exchange_ptr x, metrics& m) : exchange_(std::move(x)), metrics_(m) {}
    virtual ~sse_writer() = default;

 protected:
    /// Sends the head of the stream (contracts: no-cache, no proxy buffering) and starts the pings.
    void open();
    bool is_open() const { return stream_ != nullptr; }
    /// Ends with an error: in the stream if it is open, else as the whole answer.
    void fail_with(const error& e);
    void write(std::string frame);
    void finish();

    exchange_ptr exchange_;
    metrics& metrics_;

 private:
    void ping_later();
    std::shared_ptr<byte_stream> stream_;
    bool wrote_ = false;
};

/// A client_port that writes its events as a stream: they are posted to the I/O thread.
class sse_client : public sse_writer, public client_port {
 public:
    using sse_writer::sse_writer;

    void deliver(event_ptr e, std::string_view request_id) final {
        exchange_->post([self = std::static_pointer_cast<sse_client>(shared_from_this()), e = std::move(e),
                            id = std::string(request_id)] { self->on_event(*e, id); });
    }

 protected:
    /// On the I/O thread.
    virtual void on_event(const event& e, const std::string& request_id) = 0;
};

}  // namespace troupe::net
