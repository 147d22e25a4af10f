// Accounts of clients; those long idle are forgotten, so that the map stays bounded.
#include "actors/scheduler/fair_share.hpp"

#include <algorithm>
#include <optional>

#include "core/check.hpp"

namespace troupe::actors {
namespace {

constexpr std::size_t most_known = 1024;

}  // namespace

void fair_share::enter(const std::string& client) {
    std::optional<std::int64_t> least;
    for (const auto& [name, a] : clients_)
        if (a.requests > 0) least = std::min(least.value_or(a.served), a.served);
    account& mine = clients_[client];
    if (mine.requests == 0 && least) mine.served = std::max(mine.served, *least);
    ++mine.requests;
    mine.seen = ++visits_;
    forget_idle();
}

void fair_share::leave(const std::string& client) {
    const auto found = clients_.find(client);
    CHECK(found != clients_.end() && found->second.requests > 0);
    --found->second.requests;
}

void fair_share::charge(const std::string& client, std::int64_t tokens) { clients_[client].served += tokens; }

std::int64_t fair_share::served(const std::string& client) const {
    const auto found = clients_.find(client);
    return found == clients_.end() ? 0 : found->second.served;
}

void fair_share::forget_idle() {
    while (clients_.size() > most_known) {
        auto oldest = clients_.end();
        for (auto i = clients_.begin(); i != clients_.end(); ++i)
            if (i->second.requests == 0 && (oldest == clients_.end() || i->second.seen < oldest->second.seen))
                oldest = i;
        if (oldest == clients_.end()) return;
        clients_.erase(oldest);
    }
}

}  // namespace troupe::actors
