// What the store keeps, as plain structs: rows to write and what comes back when a session is loaded. No SQL, no CAF.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/events.hpp"
#include "core/requests.hpp"

namespace troupe::actors {

struct stored_message {
    message_view view;
    usage_counts usage;
    bool operator==(const stored_message&) const = default;
};

/// Everything that makes an answer: written before its first token, so that it can be gone on with identically.
struct stored_generation {
    std::string id, session, message;
    std::vector<std::int32_t> prompt;
    std::string params;  ///< JSON of resolved_params (actors/session/parameters.hpp), the seed included
    std::string model, model_hash, numerics_id;
    std::vector<std::int32_t> tokens;  ///< accepted so far: the journal, filled by load
    float mu = 0;                      ///< mirostat's, after the last of them
    bool operator==(const stored_generation&) const = default;
};

struct stored_session {
    session_view info;
    std::string leaf;
    std::uint64_t seq_reserved = 0;        ///< event numbers up to here may have been used
    std::vector<stored_message> messages;  ///< in the order they were written
    std::vector<stored_generation> unfinished;
};

// -- records: one transaction writes a list of them, in order
struct put_session {
    session_view info;
    std::string leaf;
    std::uint64_t seq_reserved = 0;
};  ///< seq_reserved only grows
struct put_message {
    std::string session;
    stored_message message;
};  ///< adds, or replaces the one with that id
struct put_generation {
    stored_generation generation;
};  ///< without its tokens
/// Tokens pos, pos + 1, ... of a generation. Writing the same again changes nothing.
struct append_tokens {
    std::string generation;
    std::int64_t pos = 0;
    std::vector<std::int32_t> tokens;
    float mu = 0;  ///< mirostat's, after the last of them
};
struct end_generation {
    std::string generation;
};  ///< forgets prompt and journal
struct reserve_seq {
    std::string session;
    std::uint64_t up_to = 0;
};
struct delete_session {
    std::string session;
};

using record =
    std::variant<put_session, put_message, put_generation, append_tokens, end_generation, reserve_seq, delete_session>;

}  // namespace troupe::actors
