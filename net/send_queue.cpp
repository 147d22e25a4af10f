#include "net/send_queue.hpp"

#include "core/check.hpp"
#include "net/event_json.hpp"

namespace troupe::net {

std::size_t event_cost(const event& e) {
    std::size_t n = 160;
    if (const auto* d = std::get_if<delta_event>(&e.payload)) n += d->text.size() + d->text.size() / 4;
    if (const auto* m = std::get_if<message_created>(&e.payload)) n += m->message.content.size();
    if (const auto* s = std::get_if<snapshot_event>(&e.payload)) {
        for (const auto& m : s->messages) n += 200 + m.content.size();
        if (s->generating) n += s->generating->text.size();
    }
    return n;
}

void send_queue::push_text(std::string frame) {
    const auto cost = frame.size();
    bytes_ += cost;
    items_.push_back({std::move(frame), nullptr, {}, cost});
}

void send_queue::push_event(event_ptr e, std::string request_id) {
    if (bytes_ > bounds_.coalesce && coalesce(*e)) return;
    const auto cost = event_cost(*e);
    bytes_ += cost;
    items_.push_back({{}, std::move(e), std::move(request_id), cost});
}

/// Only with the frame just before it, so that the order of events stays.
bool send_queue::coalesce(const event& e) {
    const auto* next = std::get_if<delta_event>(&e.payload);
    if (!next || items_.empty() || !items_.back().payload) return false;
    auto& last = items_.back();
    const auto* before = std::get_if<delta_event>(&last.payload->payload);
    if (!before || last.payload->session != e.session || before->message != next->message ||
        before->offset + before->text.size() != next->offset || last.payload->seq + 1 != e.seq)
        return false;
    auto merged = std::make_shared<event>(e);
    auto& d = std::get<delta_event>(merged->payload);
    d.offset = before->offset;
    d.text = before->text + next->text;
    d.from_seq = before->from_seq ? before->from_seq : last.payload->seq;
    const auto cost = event_cost(*merged);
    bytes_ += cost - last.cost;
    last.cost = cost;
    last.payload = std::move(merged);
    return true;
}

std::string send_queue::pop() {
    CHECK(!items_.empty());
    auto i = std::move(items_.front());
    items_.pop_front();
    bytes_ -= i.cost;
    return i.payload ? event_json(*i.payload, i.request_id) : std::move(i.text);
}

}  // namespace troupe::net
