// The gateway: name -> session. Spawns sessions on demand, numbers their events and keeps them, knows who follows what,
// and replaces sessions, the store, the tokenizer and the compactor when they die.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <caf/actor_addr.hpp>
#include <caf/behavior.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/messages.hpp"
#include "actors/session/delivered_text.hpp"
#include "actors/session/event_log.hpp"
#include "actors/session/session_actor.hpp"
#include "actors/session/session_messages.hpp"
#include "core/config.hpp"

namespace troupe::actors {

struct gateway_setup {
    std::shared_ptr<const config> settings;
    caf::actor scheduler;
    std::function<caf::actor(caf::actor gateway)> spawn_store;
    std::function<caf::actor()> spawn_compactor;                                         ///< may be empty
    std::function<void(const std::string& actor, const std::string& reason)> restarted;  ///< for metrics; may be empty
    std::function<void(bool degraded, const std::string& reason)> persistence;           ///< for health; may be empty
};

class gateway_core;
struct gateway_state {
    static inline const char* name = "gateway";
    std::unique_ptr<gateway_core> core;
    gateway_state();
    ~gateway_state();
};
using gateway_self = caf::stateful_actor<gateway_state>;

/// Answers client_command (session empty: create, list, import, disconnect, ephemeral complete), gateway_model,
/// gateway_tokenizer, health_subscription, health_broadcast, (std::string target, actor_fault), gateway_drain,
/// gateway_shutdown, state_atom (-> JSON).
caf::behavior gateway_actor(gateway_self* self, gateway_setup setup);

class gateway_core {
 public:
    gateway_core(gateway_self* self, gateway_setup setup);

    void command(const client_command& c);
    void publish(const publish_events& p);
    void snapshot(const snapshot_ready& s);
    void status(const session_status& s);
    void acknowledged(const store_ack& a);
    void down(const caf::down_msg& d);
    void model_ready(const gateway_model& m);
    void tokenizer_ready(const gateway_tokenizer& t);
    void persistence_changed(const persistence_state& p);
    void follow_health(const health_subscription& s);
    void broadcast(const health_broadcast& b);
    result<bool> arm(const std::string& target, const actor_fault& f);
    void drain(const gateway_drain& d);
    void shutdown(const gateway_shutdown& s);
    void load_again(const std::string& name);
    std::string state_json() const;

 private:
    struct wanted_snapshot {
        std::uint64_t token = 0;
        client_ptr client;  // null: for `got`
        answer<bool> subscribed;
        answer<snapshot_event> got;
    };
    struct entry {
        caf::actor actor;
        event_log log;
        std::vector<client_ptr> subscribers;
        std::vector<wanted_snapshot> wanted;
        std::vector<client_command> waiting;  // until it is loaded
        std::deque<publish_events> held;      // until numbers are reserved
        bool ephemeral = false, loading = false, retiring = false, busy = false, reserving = false;
        std::string running_message;
        std::uint64_t generation = 0;
        delivered_text delivered;
        int crashes = 0, load_tries = 0;
        std::uint64_t used = 0;
    };
    struct pending_write {
        std::shared_ptr<const std::vector<record>> records;
        std::function<void(saved)> then;
    };

    void handle(command::create& c);
    void handle(command::list& c);
    void handle(command::import_json& c);
    void handle(command::disconnect& c);
    void start_ephemeral(const client_command& c, command::complete& body);
    void route(const std::string& name, const client_command& c);
    void dispatch(const std::string& name, entry& e, const client_command& c);
    void end_subscription(entry& e, const client_ptr& client);
    void subscribe(entry& e, command::subscribe& c);
    void want_snapshot(entry& e, wanted_snapshot w);
    void load(const std::string& name);
    void loaded(const std::string& name, const session_ptr& s);
    void load_failed(const std::string& name, const error& e);
    void spawn_session(const std::string& name, entry& e, stored_session s);
    void deliver(const std::string& name, entry& e, publish_events p);
    void reserve(const std::string& name, entry& e);
    void write(std::vector<record> records, std::function<void(saved)> then);
    void session_down(const std::string& name, const caf::error& reason);
    void spawn_store();
    void spawn_tokenizer();
    void spawn_compactor();
    void tell_peers();
    void erase(const std::string& name);
    void set_busy(entry& e, bool busy);
    void answer_drained();
    void tell_health(std::optional<degraded_event>& known, std::optional<degraded_event> now, restored_event restored);
    void make_room();

    gateway_self* self_;
    gateway_setup setup_;
    session_peers peers_;
    std::function<caf::actor()> tokenizer_factory_;
    std::unordered_map<std::string, entry> entries_;
    std::unordered_map<caf::actor_addr, std::string> names_;
    struct numbers {
        std::uint64_t last, reserved;
    };
    std::unordered_map<std::string, numbers> unloaded_;  // event numbers go on where they were while the server lives
    std::unordered_map<std::uint64_t, pending_write> writes_;
    std::vector<client_ptr> health_clients_;
    struct drain_waiter {
        bool journaled_too = true;
        std::function<void()> done;
    };
    std::vector<drain_waiter> drained_;
    std::optional<degraded_event> engine_degraded_, disk_degraded_;
    caf::actor compactor_;
    std::shared_ptr<std::atomic<std::uint64_t>> next_generation_;
    std::shared_ptr<std::atomic<std::int64_t>> session_fault_;
    std::uint64_t next_ticket_ = 0, next_token_ = 0, clock_ = 0;
    int busy_ = 0, busy_ephemeral_ = 0;
    int store_restarts_ = 0, tokenizer_restarts_ = 0, session_restarts_ = 0, compactor_restarts_ = 0;
    bool draining_ = false, closed_ = false;
    persistence_state persistence_;
};

}  // namespace troupe::actors
