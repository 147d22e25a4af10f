// The engine's insides, shared by the three files that make it up: life and death, the session port, the engine port.
#pragma once

#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <thread>

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>

#include "actors/engine.hpp"
#include "actors/messages.hpp"
#include "actors/session/session_messages.hpp"
#include "actors/store/data_lock.hpp"
#include "actors/supervisor/supervisor.hpp"
#include "actors/system.hpp"
#include "actors/tokenizer/text_model.hpp"

namespace troupe::actors {

struct engine_actors {
    caf::actor gateway, scheduler, supervisor;
};

/// Work for the desk: an actor that asks the others on behalf of the engine port and passes their answers on.
struct desk_task {
    std::function<void(caf::event_based_actor*, const engine_actors&)> run;
    engine_actors actors;
};

/// What several threads tell the engine.
struct engine_facts {
    std::mutex mutex;
    std::shared_ptr<const text_model> text;    ///< null: still read
    std::optional<executor_info> executor;     ///< of the first incarnation
    std::shared_ptr<const model_facts> model;  ///< both are there
    caf::actor tokenizer, store, compactor;    ///< the gateway's latest, for the desk
    std::string persistence;                   ///< why persistence is degraded; empty: it is not
    bool told_degraded = false;
    bool serving = false;       ///< the gateway has been told the model
    bool draining = false;      ///< an operator asked for it
    bool sleeping = false;      ///< the weights are unloaded
    bool closing = false;       ///< actors end because they are told to
    start_callbacks callbacks;  ///< emptied by the first call
    std::map<std::string, std::uint64_t> restarts_counted;
};

class engine_impl final : public engine, public session_port, public engine_port {
 public:
    engine_impl(const config& settings, start_callbacks callbacks, std::shared_ptr<metrics> meters);
    ~engine_impl() override;
    result<void> open();

    session_port& sessions() override { return *this; }
    engine_port& control() override { return *this; }
    bool drain(std::chrono::milliseconds deadline) override;
    bool shutdown(std::chrono::milliseconds deadline) override;

    // -- session_port (engine_sessions.cpp)
    void create(std::string title, session_settings settings, reply<session_view> done) override;
    void list(std::int64_t limit, std::string after, std::string search, reply<session_page> done) override;
    void get(std::string session, reply<snapshot_event> done) override;
    void update(std::string session, std::optional<std::string> title, std::optional<session_settings> settings,
        reply<session_view> done) override;
    void remove(std::string session, reply<bool> done) override;
    void export_json(std::string session, reply<std::string> done) override;
    void import_json(std::string json, reply<session_view> done) override;
    void subscribe(
        std::string session, std::optional<std::uint64_t> from, client_ptr client, reply<bool> done) override;
    void unsubscribe(std::string session, client_ptr client, reply<bool> done) override;
    void disconnect(client_ptr client) override;
    void message(std::string session, new_message m, std::string client_key, client_ptr client, std::string request_id,
        reply<posted> done) override;
    void regenerate(std::string session, std::string message, generation_params params, std::string client_key,
        client_ptr client, std::string request_id, reply<posted> done) override;
    void edit(std::string session, std::string message, std::string content, generation_params params,
        std::string client_key, client_ptr client, std::string request_id, reply<posted> done) override;
    void stop(std::string session, reply<bool> done) override;
    void complete(completion_request request, client_ptr client, reply<generation_ticket> done) override;
    void cancel(generation_ticket ticket) override;

    // -- engine_port (engine_control.cpp)
    void health(reply<health_report> done) override;
    void models(reply<std::vector<model_card>> done) override;
    void tokenize(
        std::string text, bool add_special, bool parse_special, reply<std::vector<token_piece>> done) override;
    void detokenize(std::vector<std::int32_t> ids, reply<std::string> done) override;
    void apply_template(std::vector<chat_message> messages, std::string kwargs_json, reply<std::string> done) override;
    void state(reply<std::string> done) override;
    void props(reply<std::string> done) override;
    void slots(reply<std::string> done) override;
    void arm_fault(fault_spec spec, reply<bool> done) override;
    void admin(std::string action, reply<std::string> done) override;
    void subscribe_health(client_ptr client) override;

 private:
    void spawn_actors();
    void load_text();
    void text_loaded(result<std::shared_ptr<const text_model>> text);
    void executor_started(result<executor_info> info);
    void join_facts();
    void fail_start(error e);
    std::optional<error> unknown_model(const session_settings& settings) const;
    void health_changed(const health_report& h);
    void count_restarts();
    health_report as_a_whole(
        health_report h) const;  ///< the executor's health, with what else keeps the engine from serving
    model_card card(const text_model& text) const;
    caf::actor tokenizer() const;
    caf::actor store() const;
    caf::actor compactor() const;
    /// To the gateway, unless the engine is closed: then the body's answer is dropped, which answers shutting_down.
    void ask(std::string session, command_body body);
    void desk(std::function<void(caf::event_based_actor*, const engine_actors&)> run);
    template <class T> std::shared_ptr<const text_model> text_or(const answer<T>& done) const;
    bool wait_until_gone(std::chrono::steady_clock::time_point deadline);

    config settings_;
    std::shared_ptr<metrics> meters_;
    std::shared_ptr<engine_facts> facts_ = std::make_shared<engine_facts>();
    std::optional<data_lock> lock_;
    std::string store_file_, no_store_reason_;
    std::unique_ptr<system_config> system_config_;
    std::unique_ptr<caf::actor_system> system_;
    engine_actors actors_;
    caf::actor desk_;
    std::thread loader_;
    mutable std::shared_mutex gate_;  ///< held shared by port calls, exclusively when the handles go
    bool closed_ = false;
    bool shut_down_ = false, clean_ = true;
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::desk_task)
