#include "actors/session/delivered_text.hpp"

#include <algorithm>

namespace troupe::actors {

bool delivered_text::trim(event_payload& payload) {
    auto* d = std::get_if<delta_event>(&payload);
    if (!d) return false;
    if (d->message == message_ && d->offset < bytes_) {
        const auto known = std::min<std::uint64_t>(bytes_ - d->offset, d->text.size());
        d->text.erase(0, known);
        d->offset += known;
        if (d->text.empty()) return true;
    }
    message_ = d->message;
    bytes_ = d->offset + d->text.size();
    return false;
}

}  // namespace troupe::actors
