// Who has had how much: tokens served to each client and to each of its sessions, by which the queue picks whose
// request is next.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/clock.hpp"

namespace troupe::actors {

/// Deficit accounting over tokens. A client that comes back after a pause starts level with the least served of those
/// at work, so neither does waiting save up credit nor does a newcomer wait for what others had before. One that waits
/// with nothing running gains on the others with time, so newcomers without end cannot keep it out. The same holds
/// between the sessions of one client.
class fair_share {
 public:
    /// The smallest is next: by level, then whoever's turn is longest ago.
    struct standing {
        std::int64_t level = 0;
        std::uint64_t turn = 0;
        auto operator<=>(const standing&) const = default;
    };

    /// One more request is in the house.
    void enter(const std::string& client, const std::string& session);
    void leave(const std::string& client, const std::string& session);
    /// It starts to run, and does not run any more.
    void begin(const std::string& client, const std::string& session);
    void end(const std::string& client, const std::string& session, steady_time now);
    void charge(const std::string& client, const std::string& session, std::int64_t tokens);

    std::int64_t served(const std::string& client) const;
    std::int64_t served(const std::string& client, const std::string& session) const;
    /// waits_since: the oldest of its waiting requests.
    standing of(const std::string& client, steady_time waits_since, steady_time now) const;
    standing of(const std::string& client, const std::string& session, steady_time waits_since, steady_time now) const;
    std::size_t n_known() const { return clients_.size(); }

 private:
    struct account {
        std::int64_t served = 0, requests = 0, running = 0;
        std::uint64_t seen = 0, turn = 0;
        steady_time ran{};  ///< when the last running one ended
    };
    struct client_account : account {
        std::map<std::string, account> sessions;
    };
    template <class Map>
    static void enter(Map& accounts, const std::string& name, std::uint64_t visit, std::size_t most);
    template <class F> void both(const std::string& client, const std::string& session, F&& f);
    static standing of(const account& a, steady_time waits_since, steady_time now);

    std::map<std::string, client_account> clients_;
    std::uint64_t visits_ = 0;
};

}  // namespace troupe::actors
