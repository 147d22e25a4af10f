// The front process in virtual time: the shells of the actors scheduler, session, gateway, store and compactor around
// the very code they decide with. It can be killed as a whole; actors of it can crash.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/compactor/policy.hpp"
#include "actors/scheduler/policy.hpp"
#include "actors/session/answer_run.hpp"
#include "actors/session/delivered_text.hpp"
#include "actors/session/event_log.hpp"
#include "actors/session/outbox.hpp"
#include "actors/store/store_writer.hpp"
#include "context.hpp"
#include "executor_host.hpp"
#include "fake_disk.hpp"
#include "people.hpp"
#include "policy_watch.hpp"

namespace troupe::actors::sim {

class front : public executor_listener {
 public:
    front(context& c, fake_disk& disk);

    void serve(people& p);  ///< starts the executor, goes on with what was unfinished

    // -- what clients ask
    void ask(conversation& c);
    void stop(conversation& c);
    void leave(conversation& c);
    void follow(conversation& c);

    // -- faults
    void crash_store();
    void crash_session(int which);
    void give_back(const memory_order& order);

    /// After every happening: the scheduler's shell goes on, and everything is checked.
    void go_on();
    void check_idle();
    const scheduler_policy& policy() const { return policy_; }
    executor_host& host() { return host_; }
    const store_writer& writer() const { return *writer_; }
    policy_watch& watch() { return watch_; }
    /// Could it lose, if it were killed now, what clients have seen?
    bool could_forget() const;

    void executor_up(const executor_info& info) override;
    void executor_down(std::uint64_t epoch, const std::string& reason, std::uint64_t plan_started) override;
    void plan_done(const plan_result& r) override;
    void job_done(const kv_job_result& r) override;

 private:
    /// The actor of one conversation.
    struct session {
        life alive;
        channel in;
        std::unique_ptr<answer_run> run;
        generation_id generation = 0;
        std::string row;  ///< of the generation; empty: not stored
        std::size_t question = 0;
        outbox out;
        std::uint64_t tickets = 0;
        std::string leaf;
        snapshot_event shown;  ///< as published
    };
    /// The gateway's entry for it.
    struct room {
        std::string name;
        bool stored = false, loading = false, reserving = false;
        conversation* of = nullptr;  ///< ephemeral, or the client that follows it
        std::unique_ptr<session> actor;
        event_log log;
        delivered_text delivered;
        std::deque<std::vector<event_payload>> held;
        std::vector<std::function<void()>> waiting;  ///< until it is loaded
        int crashes = 0;
    };
    struct write {
        store_writer::rows rows;
        std::function<void(saved)> acknowledged;
    };

    // front.cpp: scheduler, compactor, store
    void run_scheduler();
    void deliver(const notice& n);
    void set_timer();
    void report_usage();
    void ask_compactor();
    void send_write(store_writer::rows rows, std::function<void(saved)> acknowledged);
    void flush();
    void retry_disk();
    apply_records disk();

    // front_sessions.cpp: sessions, gateway
    room& find_room(const std::string& name, bool stored);
    void load(room& r);
    void loaded(room& r);
    void question(room& r, conversation& c);
    bool submit(room& r, generation_id id, const turn& t, std::vector<token_id> accepted, bool resumed, error& why);
    void start_run(room& r, std::size_t question, const std::string& answer, const std::string& parent);
    void resume(room& r, const stored_generation& g);
    void submit_resumed(room& r, std::vector<token_id> accepted);
    void take(room& r, answer_run::step s);
    void emit(
        room& r, std::vector<record> records, std::vector<event_payload> events, std::function<void()> after = {});
    void send_unsettled(room& r, const out_item& item);
    void drain(room& r);
    void fold(session& s, const event_payload& e);
    void publish(room& r, std::vector<event_payload> events);
    void tell_numbered(room& r, std::vector<event_payload> events);
    void reserve(room& r);
    void tell(room& r, const event& e);
    void snapshot(room& r, conversation& c);
    void check_durable(const room& r, const event_payload& e);
    void cancel(generation_id id);
    void over(room& r);

    context& c_;
    fake_disk& disk_;
    people* people_ = nullptr;
    life alive_;
    scheduler_policy policy_;
    policy_watch watch_;
    executor_host host_;
    compactor_policy compactor_;
    kv_usage usage_;
    std::optional<steady_time> usage_told_, alarm_, compactor_alarm_;
    std::map<generation_id, std::string> owners_;
    std::map<std::string, room> rooms_;
    generation_id next_generation_ = 1;
    channel to_scheduler_;

    std::shared_ptr<store_backlog> backlog_ = std::make_shared<store_backlog>();
    std::optional<store_writer> writer_;
    life store_;
    channel to_store_;
    std::vector<write> waiting_;
    std::map<std::uint64_t, write> unsettled_;  ///< the gateway's own
    std::uint64_t next_write_ = 0;
    bool flushing_ = false;
    bool poked_ = false;  ///< the scheduler got a message
};

}  // namespace troupe::actors::sim
