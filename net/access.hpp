// Who may talk to the server: Host and Origin allow-lists, compared exactly, and API keys compared in constant time.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config.hpp"
#include "core/result.hpp"

namespace troupe::net {

bool is_loopback_host(std::string_view host);  ///< of --host: 127.x.x.x, ::1, localhost

class access_rules {
 public:
    /// Reads --api-key-file too. errc::usage if it cannot be read, or if a non-loopback bind has no key.
    static result<std::shared_ptr<access_rules>> make(const config& c, bool tls);

    /// Is this Host header (port included) one of ours? A missing one is not.
    bool host_allowed(std::string_view host) const;
    /// Absent (empty) is allowed; else it must be this server's own origin under that Host, or a listed one.
    bool origin_allowed(std::string_view origin, std::string_view host) const;

    bool keys_set() const;
    struct identity {
        std::string name;  ///< stable, says nothing about the key
        bool admin = false;
    };
    /// Without keys everybody is admin and nameless. With keys: the key's identity, nothing for a wrong one.
    std::optional<identity> authenticate(std::string_view key) const;
    /// The key out of "Bearer KEY"; empty if there is none.
    static std::string_view bearer(std::string_view authorization);

    /// Reads the key file again (SIGHUP); on failure the old keys stay.
    result<void> reload();

 private:
    struct key {
        std::string text;
        identity who;
    };
    static result<std::vector<key>> read_keys(const config& c);

    config config_;
    bool tls_ = false;
    mutable std::mutex mutex_;
    std::vector<key> keys_;
};

}  // namespace troupe::net
