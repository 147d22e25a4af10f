// Who has had how much: tokens served to each client, by which the queue picks the one that had least.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace troupe::actors {

/// Deficit accounting over tokens. A client that comes back after a pause starts level with the least served of those
/// at work, so neither does waiting save up credit nor does a newcomer wait for what others had before.
class fair_share {
 public:
    void enter(const std::string& client);  ///< one more request of this client is in the house
    void leave(const std::string& client);
    void charge(const std::string& client, std::int64_t tokens);
    std::int64_t served(const std::string& client) const;
    std::size_t n_known() const { return clients_.size(); }

 private:
    struct account {
        std::int64_t served = 0;
        std::int64_t requests = 0;
        std::uint64_t seen = 0;
    };
    void forget_idle();
    std::map<std::string, account> clients_;
    std::uint64_t visits_ = 0;
};

}  // namespace troupe::actors
