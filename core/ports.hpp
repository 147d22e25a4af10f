// Where net and actors meet, so that neither knows the other: what a connection can be told (client_port), what a
// session can be asked (session_port), what the engine can be asked (engine_port).
//
// Threads. Every call returns at once. Replies and deliveries come on any thread and must not block; net posts them to
// the connection's strand. A reply is called exactly once, with an error when the engine shuts down.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/events.hpp"
#include "core/requests.hpp"
#include "core/result.hpp"

namespace troupe {

template <class T> using reply = std::function<void(result<T>)>;

class client_port {
 public:
    virtual ~client_port() = default;
    /// An event of something this client follows. `request_id` is not empty when the event answers a request of this
    /// very client. Past its byte bound the implementation coalesces, then drops its connection; it never blocks.
    virtual void deliver(event_ptr e, std::string_view request_id) = 0;
};
using client_ptr = std::shared_ptr<client_port>;

/// What an answer came to that is over.
struct finished_answer {
    std::string text;
    generation_done done;
    std::optional<error> err;
};

/// Answer to message, regenerate, edit: the client has also been (or is about to be) delivered message.created events.
struct posted {
    std::string user_message;  ///< empty for regenerate
    std::string assistant_message;
    bool duplicate = false;                   ///< the client's id was already there: nothing happened
    std::optional<finished_answer> finished;  ///< of a duplicate, unless its answer is still being made
};

struct session_page {
    std::vector<session_view> sessions;  ///< newest first
    bool has_more = false;
};

/// Handle of a generation started by complete().
struct generation_ticket {
    std::string session, message;
    std::uint64_t generation = 0;
    std::string model;
};

class session_port {
 public:
    virtual ~session_port() = default;

    virtual void create(std::string title, session_settings settings, reply<session_view> done) = 0;
    virtual void list(std::int64_t limit, std::string after, std::string search, reply<session_page> done) = 0;
    virtual void get(std::string session, reply<snapshot_event> done) = 0;
    virtual void update(std::string session, std::optional<std::string> title, std::optional<session_settings> settings,
        reply<session_view> done) = 0;
    virtual void remove(std::string session, reply<bool> done) = 0;
    virtual void export_json(std::string session, reply<std::string> done) = 0;
    virtual void import_json(std::string json, reply<session_view> done) = 0;

    /// Replays events with seq > from, then live; a snapshot first if `from` is absent, too old or beyond the last seq.
    /// A second subscription of the same client to the session replaces the first.
    virtual void subscribe(
        std::string session, std::optional<std::uint64_t> from, client_ptr client, reply<bool> done) = 0;
    virtual void unsubscribe(std::string session, client_ptr client, reply<bool> done) = 0;
    /// The connection is gone: forget all its subscriptions. Does not stop any generation.
    virtual void disconnect(client_ptr client) = 0;

    /// `client` gets message.created carrying `request_id`, also if it is not subscribed. client_key: for fairness.
    virtual void message(std::string session, new_message m, std::string client_key, client_ptr client,
        std::string request_id, reply<posted> done) = 0;
    virtual void regenerate(std::string session, std::string message, generation_params params, std::string client_key,
        client_ptr client, std::string request_id, reply<posted> done) = 0;
    virtual void edit(std::string session, std::string message, std::string content, generation_params params,
        std::string client_key, client_ptr client, std::string request_id, reply<posted> done) = 0;
    /// True if something was running. The generation.done follows as an event.
    virtual void stop(std::string session, reply<bool> done) = 0;

    /// A generation of the OpenAI routes. Events (queued, progress, delta, paused, resumed, done, error) go to `client`
    /// with the ticket's session name; without session_id nothing is stored or listed. Errors that are known before the
    /// first token (context, queue, parameters) come through `done`.
    virtual void complete(completion_request request, client_ptr client, reply<generation_ticket> done) = 0;
    /// The HTTP client of a ticket is gone: cancel, unless the generation belongs to a stored session.
    virtual void cancel(generation_ticket ticket) = 0;
};

struct health_report {
    std::string status = "loading";  ///< ok, loading, sleeping, degraded, recovering, down
    std::uint64_t epoch = 0, restarts = 0;
    std::string last_fault;  ///< empty: none
    double probe_ms = 0;
    std::vector<std::string> reasons;
    double load_progress = 0;    ///< 0..1 while loading
    std::string level = "full";  ///< of the degradation ladder: full, no_run_ahead, small_batch; down: nothing computes
    bool round_trip = true;      ///< false: nobody who is responsible answers, or nothing can compute
    bool healthy() const { return status == "ok" || status == "degraded" || status == "sleeping"; }
};

struct model_card {
    std::string id, architecture, quantization, vocab_type, path;
    std::int64_t created = 0;  ///< Unix seconds
    std::int64_t n_ctx = 0, n_ctx_train = 0, n_vocab = 0, n_embd = 0, n_params = 0, size_bytes = 0;
    std::string chat_template;
    std::string chat_template_origin;  ///< "model", or which built-in one stands in: "chatml", "gemma", "plain"
    std::string pre_tokenizer;         ///< as the file names it
};

struct token_piece {
    std::int32_t id = 0;
    std::string bytes;
};

/// POST /admin/faults.
struct fault_spec {
    std::string target = "executor", kind;
    std::int64_t after_steps = 0, times = 1, slow_ms = 0;
    std::string request_contains;
};

class engine_port {
 public:
    virtual ~engine_port() = default;

    /// A round trip through the executor, bounded by limits::health_probe_deadline, cached for limits::health_cache.
    virtual void health(reply<health_report> done) = 0;
    /// Empty while loading.
    virtual void models(reply<std::vector<model_card>> done) = 0;
    virtual void tokenize(
        std::string text, bool add_special, bool parse_special, reply<std::vector<token_piece>> done) = 0;
    virtual void detokenize(std::vector<std::int32_t> ids, reply<std::string> done) = 0;
    virtual void apply_template(
        std::vector<chat_message> messages, std::string kwargs_json, reply<std::string> done) = 0;
    /// JSON texts.
    virtual void state(reply<std::string> done) = 0;
    virtual void props(reply<std::string> done) = 0;
    virtual void slots(reply<std::string> done) = 0;
    /// errc::forbidden unless started with --fault-injection.
    virtual void arm_fault(fault_spec spec, reply<bool> done) = 0;
    /// "restart", "compact", "unload", "drain"; answered when done, with a JSON text.
    virtual void admin(std::string action, reply<std::string> done) = 0;
    /// Broadcasts of degraded / restored events.
    virtual void subscribe_health(client_ptr client) = 0;
};

}  // namespace troupe
