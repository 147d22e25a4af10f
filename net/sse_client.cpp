#include "net/sse_client.hpp"

namespace troupe::net {

void sse_writer::open() {
    http_response head;
    head.type = "text/event-stream";
    head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
    stream_ = exchange_->open_stream(std::move(head));
    ping_later();
}

void sse_writer::write(std::string frame) {
    if (!stream_ || frame.empty()) return;
    if (stream_->queued() > limits::client_queue_drop_bytes) {
        metrics_.slow_clients_dropped.Increment();
        stream_->abort();
        stream_.reset();
        return;
    }
    wrote_ = true;
    stream_->write(std::move(frame));
}

void sse_writer::fail_with(const error& e) {
    if (!is_open()) return exchange_->respond(error_response(e));
    write(error_frames(e));
    finish();
}

void sse_writer::finish() {
    if (stream_) stream_->finish();
    stream_.reset();
}

void sse_writer::ping_later() {
    using std::chrono::milliseconds;
    const auto every = std::chrono::duration_cast<milliseconds>(limits::sse_ping_every).count() / 2;
    exchange_->after(static_cast<int>(every), [weak = weak_from_this()] {
        const auto self = weak.lock();
        if (!self || !self->stream_) return;
        // Checked twice a period, so that no silence is longer than one.
        if (!self->wrote_) self->write(": ping\n\n");
        self->wrote_ = false;
        self->ping_later();
    });
}

}  // namespace troupe::net
