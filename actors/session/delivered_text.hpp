// What of an answer's text the clients have: a session that was restarted says its text again from the start, and what
// they have is cut off. Owned by the gateway, like the event log.
#pragma once

#include <cstdint>
#include <string>

#include "core/events.hpp"

namespace troupe::actors {

class delivered_text {
 public:
    /// Call it once for every event that is about to be delivered. True: nothing is left of it.
    bool trim(event_payload& payload);

 private:
    std::string message_;
    std::uint64_t bytes_ = 0;
};

}  // namespace troupe::actors
