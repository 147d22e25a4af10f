// Messages the store receives and sends (local to the front process).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <caf/actor.hpp>
#include <caf/allowed_unsafe_message_type.hpp>

#include "actors/store/records.hpp"
#include "actors/store/store_writer.hpp"
#include "core/ports.hpp"

namespace troupe::actors {

/// Written in order, with whatever else waits in the mailbox in one transaction; then `owner` gets store_ack{ticket}.
/// Sending the same write twice changes nothing (a restarted store is sent what it had not acknowledged).
struct store_write {
    std::uint64_t ticket = 0;
    std::shared_ptr<const std::vector<record>> records;
    caf::actor owner;
};
struct store_ack {
    std::uint64_t ticket = 0;
    saved how = saved::durable;
};

struct store_load {
    std::string session;
};  ///< -> session_ptr (null: no such session), or an error
using session_ptr = std::shared_ptr<const stored_session>;
struct store_list {
    std::int64_t limit = 0;
    std::string after, search;
};  ///< -> page_ptr, or an error
using page_ptr = std::shared_ptr<const session_page>;
struct store_unfinished {};  ///< -> names_ptr: sessions with an unfinished generation
using names_ptr = std::shared_ptr<const std::vector<std::string>>;

/// To the listener, whenever it changes (and once at start if it begins degraded).
struct persistence_state {
    bool degraded = false;
    std::string reason;
};

/// A fault armed by POST /admin/faults for an actor of the front: it throws at its next message of work.
struct actor_fault {
    std::string kind;
    std::int64_t after = 0;
};

// -- to itself
struct store_flush {};
struct store_retry {};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::store_write)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::store_ack)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::store_load)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::session_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::store_list)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::page_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::store_unfinished)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::names_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::persistence_state)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::actor_fault)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::store_flush)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::store_retry)
