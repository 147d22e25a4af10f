#include "actors/session/event_log.hpp"

#include "core/check.hpp"

namespace troupe::actors {
namespace {

constexpr std::size_t base_weight = 96;

std::size_t of(const message_view& m) { return base_weight + m.content.size(); }

std::size_t of(const delta_event& d) {
    std::size_t n = base_weight + d.text.size();
    for (const auto& l : d.logprobs) n += (1 + l.top.size()) * sizeof(token_choice);
    return n;
}

}  // namespace

std::size_t weight_of(const event_payload& payload) {
    if (const auto* d = std::get_if<delta_event>(&payload)) return of(*d);
    if (const auto* m = std::get_if<message_created>(&payload)) return of(m->message);
    if (const auto* u = std::get_if<session_updated>(&payload))
        return base_weight + u->info.title.size() + u->info.settings.system.size();
    if (const auto* s = std::get_if<snapshot_event>(&payload)) {
        std::size_t n = base_weight;
        for (const auto& m : s->messages) n += of(m);
        return n;
    }
    return base_weight;
}

event_ptr event_log::append(const std::string& session, event_payload payload) {
    CHECK(!exhausted(), "event numbers must be reserved before they are used");
    const std::size_t bytes = weight_of(payload);
    ring_.push_back({std::make_shared<const event>(event{session, ++last_, std::move(payload)}), bytes});
    bytes_ += bytes;
    trim();
    return ring_.empty() ? nullptr : ring_.back().e;
}

void event_log::trim() {
    while (ring_.size() > 1 && (ring_.size() > limits::event_ring_events || bytes_ > limits::event_ring_bytes)) {
        const auto& oldest = ring_.front();
        if (pinned_from_ && oldest.e->seq >= pinned_from_) return;
        dropped_to_ = oldest.e->seq;
        bytes_ -= oldest.bytes;
        ring_.pop_front();
    }
}

void event_log::unpin() {
    pinned_from_ = 0;
    trim();
}

std::vector<event_ptr> event_log::since(std::uint64_t from) const {
    CHECK(covers(from));
    std::vector<event_ptr> r;
    const auto skip = static_cast<std::size_t>(from - dropped_to_);
    r.reserve(ring_.size() - skip);
    for (std::size_t i = skip; i < ring_.size(); ++i) r.push_back(ring_[i].e);
    return r;
}

}  // namespace troupe::actors
