// Messages of gateway and sessions (local to the front process): commands of clients, events to publish, who the peers
// are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <caf/actor.hpp>
#include <caf/allowed_unsafe_message_type.hpp>

#include "actors/session/answer.hpp"
#include "actors/store/records.hpp"
#include "actors/store/store_messages.hpp"
#include "core/config.hpp"
#include "model/tokenizers/tokenizer.hpp"

namespace troupe::actors {

// -- what a client asks (gateway, and on to the session)
namespace command {
struct create {
    std::string title;
    session_settings settings;
    answer<session_view> done;
};
struct list {
    std::int64_t limit = 0;
    std::string after, search;
    answer<session_page> done;
};
struct get {
    answer<snapshot_event> done;
};
struct update {
    std::optional<std::string> title;
    std::optional<session_settings> settings;
    answer<session_view> done;
};
struct remove {
    answer<bool> done;
};
struct export_json {
    answer<std::string> done;
};
struct import_json {
    std::string json;
    answer<session_view> done;
};
struct subscribe {
    std::optional<std::uint64_t> from;
    client_ptr client;
    answer<bool> done;
};
struct unsubscribe {
    client_ptr client;
    answer<bool> done;
};
struct disconnect {
    client_ptr client;
};
/// Where an answer's first event goes and who pays for it.
struct origin {
    std::string client_key;
    client_ptr client;
    std::string request_id;
};
struct message {
    new_message m;
    origin from;
    answer<posted> done;
};
struct regenerate {
    std::string message;
    generation_params params;
    origin from;
    answer<posted> done;
};
struct edit {
    std::string message, content;
    generation_params params;
    origin from;
    answer<posted> done;
};
struct stop {
    answer<bool> done;
};
struct complete {
    completion_request request;
    client_ptr client;
    answer<generation_ticket> done;
};
struct cancel {};
}  // namespace command
using command_body = std::variant<command::create, command::list, command::get, command::update, command::remove,
    command::export_json, command::import_json, command::subscribe, command::unsubscribe, command::disconnect,
    command::message, command::regenerate, command::edit, command::stop, command::complete, command::cancel>;
/// Moved from by the one who carries it out.
struct client_command {
    std::string session;
    std::shared_ptr<command_body> body;
};

// -- session <- gateway
/// What the sessions know of the model, from the moment it can answer.
struct model_facts {
    std::shared_ptr<const model::tokenizer> vocabulary;
    std::string name, hash, numerics_id;
    std::int64_t n_ctx = 0;
};
struct session_peers {
    caf::actor scheduler, tokenizer, store;
    std::shared_ptr<const model_facts> model;  ///< null: still loading
};
/// -> snapshot_ready, in order with the session's events
struct snapshot_request {
    std::uint64_t token = 0;
};
/// Leave when idle: memory is needed elsewhere.
struct retire_session {};

// -- gateway <- session
struct publish_events {
    std::string session;
    std::vector<event_payload> events;
    client_ptr origin;  ///< gets the first event also if it is not subscribed, with request_id
    std::string request_id;
};
struct snapshot_ready {
    std::string session;
    std::uint64_t token = 0;
    std::shared_ptr<snapshot_event> snapshot;
};
/// An answer begins (before its first event) or has ended (after its last).
struct session_status {
    std::string session, message;
    std::uint64_t generation = 0;
    bool busy = false;
};

// -- gateway <- engine
/// The executor is ready: answers can be made.
struct gateway_model {
    std::shared_ptr<const model_facts> facts;
};
/// The vocabulary is there.
struct gateway_tokenizer {
    std::function<caf::actor()> spawn;
};
struct health_subscription {
    client_ptr client;
};
struct health_broadcast {
    bool degraded = false;
    std::string level, reason;
};
/// New work is refused from now on.
struct gateway_drain {
    std::function<void()> when_idle;
    bool journaled_too = true;  ///< false: only for answers that no later start could go on with
};
/// Ephemeral answers are ended with an error, the journal is flushed; no client is called after `done`.
struct gateway_shutdown {
    std::function<void()> done;
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::client_command)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::session_peers)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::snapshot_request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::retire_session)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::publish_events)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::snapshot_ready)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::session_status)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::gateway_model)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::gateway_tokenizer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::health_subscription)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::health_broadcast)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::gateway_drain)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::gateway_shutdown)
