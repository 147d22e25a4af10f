// The store: one actor in front of the database. Group commit: everything that waits in its mailbox is one transaction.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <caf/behavior.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/store/backlog.hpp"
#include "actors/store/database.hpp"
#include "actors/store/store_messages.hpp"
#include "actors/store/store_writer.hpp"

namespace troupe::actors {

struct store_options {
    std::string file;            ///< path of the database; empty: memory only
    std::string no_file_reason;  ///< why `file` is empty: the reason of the degraded state
    std::shared_ptr<store_backlog> backlog = std::make_shared<store_backlog>();  ///< of all incarnations
    std::function<void(std::size_t tokens)>
        journal_lag;  ///< told of accepted tokens that wait for the disk; may be empty
};

struct store_state {
    static inline const char* name = "store";
    std::unique_ptr<database> db;
    caf::actor listener;               ///< gets persistence_state
    std::vector<store_write> waiting;  ///< of this transaction
    std::optional<store_writer> writer;
    std::string file;             ///< empty: in memory for good
    bool waits_for_file = false;  ///< it could not be opened yet
    bool flush_queued = false;
    bool told_degraded = false;
    std::size_t told_lag = 0;
    std::function<void(std::size_t tokens)> journal_lag;
    std::int64_t fault_after = -1;
};

/// Blocks in the file system: spawn it detached (tests do not).
caf::behavior store_actor(caf::stateful_actor<store_state>* self, store_options options, caf::actor listener);

}  // namespace troupe::actors
