// The supervisor's class, shared by the two files that make it up: the executor's life (supervisor.cpp), questions and
// orders (supervisor_orders.cpp). Private to them.
#pragma once

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <caf/event_based_actor.hpp>
#include <caf/response_promise.hpp>

#include "actors/supervisor/health.hpp"
#include "actors/supervisor/ladder.hpp"
#include "actors/supervisor/leak_watch.hpp"
#include "actors/supervisor/policy.hpp"
#include "actors/supervisor/supervisor.hpp"
#include "actors/supervisor/supervisor_state.hpp"

namespace troupe::actors {

inline constexpr auto executor_hello_deadline = std::chrono::seconds(5);

class supervisor final : public caf::event_based_actor {
 public:
    supervisor(caf::actor_config& cfg, supervisor_settings settings, std::shared_ptr<child_host> host,
        caf::actor scheduler, supervisor_callbacks callbacks);

    const char* name() const override { return "supervisor"; }
    void on_exit() override;
    caf::behavior make_behavior() override;

 private:
    // -- an incarnation's life (supervisor.cpp)
    void start();
    void on_event(const child_event& e);
    void say_hello(const caf::actor& door);
    void attach(const caf::actor& executor, const executor_info& i);
    void refuse(std::uint64_t epoch, const caf::error& e);
    void on_ready(const executor_info& i);
    void end_child();
    std::uint64_t steps_done() const;
    void on_gone(const child_exit& exit);
    void judge(death_cause cause);
    void plan_restart(death_cause cause, bool was_ready, bool stepped);
    void give_up(const error& e);
    void first_start_failed(const error& e);

    // -- watching
    void arm_timer(caf::timespan after);
    void on_timer(std::uint64_t token);
    void watch_loading();
    void watch_running();
    void heartbeat();
    void on_stuck(const std::string& why);
    void tell_level();
    void sample_memory();

    // -- sleep
    void on_work(const work_state& w);
    void arm_sleep();
    void on_sleep_timer();
    void fall_asleep();
    void asleep();
    caf::result<bool> on_unload();
    void unload_now();

    // -- questions and orders (supervisor_orders.cpp)
    health_report report() const;
    void announce();
    caf::result<health_report> on_health();
    void probe();
    void on_probe(std::uint64_t epoch, steady_time sent, bool answered);
    void answer_probes(const health_report& r);
    caf::result<bool> on_restart();
    caf::result<bool> on_fault(const fault_spec& f);
    supervisor_counters take_counters();
    caf::result<bool> on_drain();
    void finish_drain();
    void fail_promises(const error& e);

    const supervisor_settings settings_;
    std::shared_ptr<child_host> host_;
    caf::actor scheduler_;
    supervisor_callbacks callbacks_;

    executor_phase phase_ = executor_phase::loading;
    std::uint64_t epoch_ = 0, restarts_ = 0, timer_token_ = 0;
    std::string cookie_;
    caf::actor executor_;
    std::optional<executor_info> info_;  ///< while the scheduler knows this incarnation
    death_facts death_;                  ///< of this incarnation, as far as known before it is gone
    std::optional<error> load_error_;
    restart_policy policy_;
    degradation_ladder ladder_;
    stall_watch stall_;
    idle_watch idle_;
    bool sleep_armed_ = false;
    bool asleep_ = false;  ///< on its way to sleep, asleep, or waking up
    std::minstd_rand random_{std::random_device{}()};

    bool ever_ready_ = false, first_start_failed_ = false, answers_ = true, heartbeat_pending_ = false;
    std::string last_fault_, down_reason_;
    steady_time next_heartbeat_{}, cached_until_{};
    std::optional<steady_time> died_at_;
    double probe_ms_ = 0;
    health_report announced_{.status = ""};
    fault_book faults_;
    event_log log_;
    recovery_log recoveries_;
    leak_watch front_memory_, executor_memory_;
    supervisor_counters counters_;
    std::vector<caf::response_promise> probes_, restart_promises_, fault_promises_, unload_promises_;
    caf::response_promise drain_promise_;
};

}  // namespace troupe::actors
