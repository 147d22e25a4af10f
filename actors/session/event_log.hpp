// The events of one session with their numbers: assigns seq, keeps the replay window, knows when a client must get a
// snapshot instead. Owned by the gateway, so it survives the session actor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "actors/store/records.hpp"
#include "core/events.hpp"
#include "core/limits.hpp"

namespace troupe::actors {

/// Bytes an event occupies in a ring or a queue, near enough to bound them.
std::size_t weight_of(const event_payload& payload);

class event_log {
 public:
    /// `last`: the highest number that may have been used before; `reserved`: numbers up to here may be used.
    explicit event_log(std::uint64_t last = 0, std::uint64_t reserved = limits::seq_reservation)
        : last_(last), dropped_to_(last), reserved_(reserved) {}

    /// Gives the payload the next number. Must not be exhausted().
    event_ptr append(const std::string& session, event_payload payload);

    std::uint64_t last() const { return last_; }
    std::uint64_t reserved() const { return reserved_; }
    bool exhausted() const { return last_ >= reserved_; }
    /// Half of the reservation is used: time to reserve more.
    bool wants_reservation() const { return reserved_ - last_ < limits::seq_reservation / 2; }
    void extend(std::uint64_t reserved) { reserved_ = std::max(reserved_, reserved); }

    /// Are all events with seq > from still here, and is `from` a number that was given out?
    bool covers(std::uint64_t from) const { return from <= last_ && from >= dropped_to_; }
    /// Events with seq > from, oldest first. `from` must be covered.
    std::vector<event_ptr> since(std::uint64_t from) const;

    /// From the next event on nothing is dropped, whatever the bounds say: an answer is being made.
    void pin() { pinned_from_ = last_ + 1; }
    void unpin();

    /// Its teller died: more may have happened than was told. Nobody can go on from any number; it takes a snapshot.
    void break_off() {
        ring_.clear();
        bytes_ = 0;
        dropped_to_ = ++last_;
    }

    std::size_t bytes() const { return bytes_; }
    std::size_t size() const { return ring_.size(); }

 private:
    void trim();
    struct held {
        event_ptr e;
        std::size_t bytes;
    };
    std::deque<held> ring_;
    std::uint64_t last_, dropped_to_, reserved_;
    std::uint64_t pinned_from_ = 0;  // 0: not pinned
    std::size_t bytes_ = 0;
};

/// The log of a session that was loaded from the store. Its messages were told by events of an earlier life, if at all
/// (it may have ended before their numbers were reserved): whoever asks for the events from the start needs a snapshot.
inline event_log log_of_stored(const stored_session& s) {
    const auto used = std::max<std::uint64_t>(s.seq_reserved, s.messages.empty() ? 0 : 1);
    return event_log(used, used);
}

}  // namespace troupe::actors
