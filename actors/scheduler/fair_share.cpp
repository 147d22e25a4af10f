// Accounts of clients and sessions; those long idle are forgotten, so that the maps stay bounded.
#include "actors/scheduler/fair_share.hpp"

#include <algorithm>
#include <optional>

#include "core/check.hpp"

namespace troupe::actors {
namespace {

constexpr std::size_t most_clients = 1024, most_sessions = 256;  // the latter of one client
constexpr std::int64_t tokens_a_second_of_waiting = 256;

}  // namespace

template <class Map>
void fair_share::enter(Map& accounts, const std::string& name, std::uint64_t visit, std::size_t most) {
    std::optional<std::int64_t> least;
    for (const auto& [other, a] : accounts)
        if (a.requests > 0) least = std::min(least.value_or(a.served), a.served);
    auto& mine = accounts[name];
    if (mine.requests == 0 && least) mine.served = std::max(mine.served, *least);
    ++mine.requests;
    mine.seen = visit;
    while (accounts.size() > most) {
        auto oldest = accounts.end();
        for (auto i = accounts.begin(); i != accounts.end(); ++i)
            if (i->second.requests == 0 && (oldest == accounts.end() || i->second.seen < oldest->second.seen))
                oldest = i;
        if (oldest == accounts.end()) return;
        accounts.erase(oldest);
    }
}

void fair_share::enter(const std::string& client, const std::string& session) {
    ++visits_;
    enter(clients_, client, visits_, most_clients);
    enter(clients_.at(client).sessions, session, visits_, most_sessions);
}

template <class F> void fair_share::both(const std::string& client, const std::string& session, F&& f) {
    const auto c = clients_.find(client);
    CHECK(c != clients_.end());
    const auto s = c->second.sessions.find(session);
    CHECK(s != c->second.sessions.end());
    f(static_cast<account&>(c->second));
    f(s->second);
}

void fair_share::leave(const std::string& client, const std::string& session) {
    both(client, session, [](account& a) {
        CHECK(a.requests > 0);
        --a.requests;
    });
}

void fair_share::begin(const std::string& client, const std::string& session) {
    ++visits_;
    both(client, session, [this](account& a) {
        ++a.running;
        a.turn = visits_;
    });
}

void fair_share::end(const std::string& client, const std::string& session, steady_time now) {
    both(client, session, [now](account& a) {
        CHECK(a.running > 0);
        --a.running;
        a.ran = now;
    });
}

void fair_share::charge(const std::string& client, const std::string& session, std::int64_t tokens) {
    both(client, session, [tokens](account& a) { a.served += tokens; });
}

std::int64_t fair_share::served(const std::string& client) const {
    const auto found = clients_.find(client);
    return found == clients_.end() ? 0 : found->second.served;
}

std::int64_t fair_share::served(const std::string& client, const std::string& session) const {
    const auto c = clients_.find(client);
    if (c == clients_.end()) return 0;
    const auto s = c->second.sessions.find(session);
    return s == c->second.sessions.end() ? 0 : s->second.served;
}

fair_share::standing fair_share::of(const account& a, steady_time waits_since, steady_time now) {
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - std::max(waits_since, a.ran));
    const std::int64_t credit =
        a.running > 0 ? 0 : std::max<std::int64_t>(0, waited.count()) * tokens_a_second_of_waiting / 1000;
    return {a.served - credit, a.turn};
}

fair_share::standing fair_share::of(const std::string& client, steady_time waits_since, steady_time now) const {
    return of(clients_.at(client), waits_since, now);
}

fair_share::standing fair_share::of(
    const std::string& client, const std::string& session, steady_time waits_since, steady_time now) const {
    return of(clients_.at(client).sessions.at(session), waits_since, now);
}

}  // namespace troupe::actors
