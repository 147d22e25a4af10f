// What survives everything: the rows of the store, applied as the database applies them; and a disk that fails for a
// while.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "actors/store/records.hpp"
#include "core/result.hpp"

namespace troupe::actors::sim {

class fake_disk {
 public:
    bool failing = false;

    result<void> apply(std::span<const record> records);
    /// As the store would load it, with `pending` records that wait for the disk applied on top.
    std::optional<stored_session> load(const std::string& session, std::span<const record> pending) const;
    std::vector<std::string> unfinished() const;
    /// Tokens of an unfinished generation's journal; nullopt: no such row.
    std::optional<std::int64_t> journaled(const std::string& generation) const;
    bool has_message(const std::string& session, const std::string& message) const;

 private:
    using sessions = std::map<std::string, stored_session>;
    static void apply_to(sessions& s, const record& r);
    static stored_generation* find(sessions& s, const std::string& generation);
    sessions sessions_;
};

}  // namespace troupe::actors::sim
