// The frames waiting for one WebSocket client: byte-bounded; past the first bound neighbouring deltas of a message
// become one, past the second the client is too slow to keep.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "core/events.hpp"
#include "core/limits.hpp"

namespace troupe::net {

class send_queue {
 public:
    struct bounds {
        std::size_t coalesce = limits::client_queue_coalesce_bytes;
        std::size_t drop = limits::client_queue_drop_bytes;
    };
    explicit send_queue(bounds b) : bounds_(b) {}
    send_queue() = default;

    void push_text(std::string frame);
    void push_event(event_ptr e, std::string request_id);
    bool empty() const { return items_.empty(); }
    std::size_t bytes() const { return bytes_; }
    bool overflown() const { return bytes_ > bounds_.drop; }
    std::size_t frames() const { return items_.size(); }

    /// The next frame to send. Must not be empty.
    std::string pop();

 private:
    struct item {
        std::string text;  ///< if event is null
        event_ptr payload;
        std::string request_id;
        std::size_t cost = 0;
    };
    bool coalesce(const event& e);
    bounds bounds_;
    std::deque<item> items_;
    std::size_t bytes_ = 0;
};

/// Rough size of the event as a frame, without making it.
std::size_t event_cost(const event& e);

}  // namespace troupe::net
