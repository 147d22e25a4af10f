// What a session has to say, in order: events wait until the records they depend on are committed (journal before
// delivery).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/store/records.hpp"
#include "core/events.hpp"
#include "core/ports.hpp"

namespace troupe::actors {

struct out_item {
    std::uint64_t ticket = 0;  ///< of the write it waits for; 0: none
    std::shared_ptr<const std::vector<record>> records;
    std::vector<event_payload> events;
    client_ptr origin;
    std::string request_id;
    std::function<void()> after;  ///< runs when the events are out; may be empty
};

class outbox {
 public:
    void push(out_item item) { items_.push_back(std::move(item)); }
    /// The write with this ticket is settled.
    void settle(std::uint64_t ticket) {
        for (auto& i : items_)
            if (i.ticket == ticket) {
                i.ticket = 0;
                i.records.reset();
            }
    }
    bool front_ready() const { return !items_.empty() && items_.front().ticket == 0; }
    out_item pop() {
        auto item = std::move(items_.front());
        items_.pop_front();
        return item;
    }
    bool empty() const { return items_.empty(); }
    /// Items whose write is not acknowledged, oldest first.
    template <class F> void each_unsettled(F&& f) const {
        for (const auto& i : items_)
            if (i.ticket) f(i);
    }

 private:
    std::deque<out_item> items_;
};

}  // namespace troupe::actors
