// What a client can be told: the events of a session as plain structs; net turns them into JSON, server-sent events or
// OpenAI chunks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/error.hpp"
#include "core/requests.hpp"

namespace troupe {

struct usage_counts {
    std::int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
    bool operator==(const usage_counts&) const = default;
};

struct timing_counts {
    double queue_ms = 0, prompt_ms = 0, predicted_ms = 0;
    std::int64_t prompt_n = 0;  ///< prompt tokens computed, the cached ones not counted
    std::int64_t predicted_n = 0;
    bool operator==(const timing_counts&) const = default;
};

struct message_view {
    std::string id, parent, role, content;
    std::int64_t created = 0;   ///< Unix ms
    std::string finish_reason;  ///< empty: none (yet)
    std::optional<error> err;
    bool operator==(const message_view&) const = default;
};

struct session_view {
    std::string id, title;
    session_settings settings;
    std::int64_t created = 0, updated = 0;  ///< Unix ms
    bool operator==(const session_view&) const = default;
};

struct generating_view {
    std::string message, text;
};

/// The state of a session up to and including event `seq`; also the body of GET /v1/sessions/{id}.
struct snapshot_event {
    std::uint64_t seq = 0;
    session_view info;
    std::vector<message_view> messages;
    std::string leaf;
    std::optional<generating_view> generating;
};
struct message_created {
    message_view message;
};
struct generation_queued {
    std::string message;
    std::int64_t position = 0;
    std::optional<std::int64_t> eta_ms;
};
struct generation_progress {
    std::string message;
    std::int64_t processed = 0, total = 0, cached = 0;
};

struct token_choice {
    std::string bytes;
    double logprob = 0;
    std::int32_t id = 0;
};
struct token_logprobs {
    token_choice token;
    std::vector<token_choice> top;
    std::int32_t n_chars = 0;  ///< code points that begin in what the token adds to the text (control tokens: none)
    bool end = false;          ///< the end token: not part of the text
};

/// Part of a tool call: the first of a call has id and name, those after it more of the arguments.
struct tool_call_delta {
    int index = 0;  ///< of the call in this answer
    std::string id, name, arguments;
};

struct delta_event {
    std::string message;
    std::uint64_t offset = 0;              ///< bytes of the message's text before this
    std::string text;                      ///< whole code points
    std::uint64_t from_seq = 0;            ///< not 0: stands for from_seq..seq (coalesced for a slow reader)
    std::vector<token_logprobs> logprobs;  ///< only if asked for
    std::int64_t n_tokens = 0;      ///< tokens accepted so far in this generation, for timings_per_token and the like
    std::vector<std::int32_t> ids;  ///< of the tokens accepted since the delta before, if asked for
    std::vector<tool_call_delta> calls;  ///< after the text
};
struct generation_paused {
    std::string message, reason;
};  ///< executor_restart, preempted, memory
struct generation_resumed {
    std::string message;
    std::int64_t after_ms = 0;
    bool numerics_changed = false;
};
struct generation_done {
    std::string message;
    std::string finish_reason;  ///< stop, length, tool_calls
    std::string stopped_by;     ///< "user" after an explicit stop; else empty
    usage_counts usage;
    timing_counts timings;
    std::string stop_type;      ///< eos, word, limit; empty after a stop from outside
    std::string stopping_word;  ///< with word: the stop string
};
/// Of an embedding request, before its generation_done: one vector of length 1.
struct embedding_ready {
    std::string message;
    std::vector<float> values;
};
struct generation_error {
    std::string message;
    error err;
};
struct session_updated {
    session_view info;
};
struct session_deleted {};
/// Not tied to a session (session empty, seq 0).
struct degraded_event {
    std::string level, reason;
};
struct restored_event {
    std::string level, reason;
};

using event_payload = std::variant<snapshot_event, message_created, generation_queued, generation_progress, delta_event,
    generation_paused, generation_resumed, embedding_ready, generation_done, generation_error, session_updated,
    session_deleted, degraded_event, restored_event>;

struct event {
    std::string session;
    std::uint64_t seq = 0;
    event_payload payload;
};
using event_ptr = std::shared_ptr<const event>;

}  // namespace troupe
