#include "actors/supervisor/supervisor.hpp"

#include <random>

#include <caf/event_based_actor.hpp>
#include <caf/response_promise.hpp>
#include <caf/send.hpp>

#include <openssl/rand.h>

#include "actors/executor/faults.hpp"
#include "actors/supervisor/health.hpp"
#include "actors/supervisor/policy.hpp"
#include "actors/supervisor/supervisor_state.hpp"
#include "core/check.hpp"
#include "core/limits.hpp"
#include "core/log.hpp"

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;

constexpr auto watch_busy_every = 250ms;
constexpr auto watch_idle_every = 1s;    // the counters are read from shared memory: nearly free
constexpr auto heartbeat_every = 2s;     // a round trip through the executor's actor
constexpr auto no_answer_deadline = 4s;  // of that actor, which does no work of its own
constexpr auto hello_deadline = 5s;
constexpr auto load_stall_deadline = 120s;  // without any progress of loading
constexpr auto quiet_period = 60s;          // after a lost device, until the level goes up again

std::string random_cookie() {
    unsigned char bytes[16];
    CHECK(RAND_bytes(bytes, sizeof bytes) == 1);
    std::string text;
    for (const unsigned char b : bytes) text += fmt::format("{:02x}", b);
    return text;
}

/// An error that trying again cannot cure.
bool final_load_error(const error& e) {
    return e.code == errc::model_missing || e.code == errc::model_malformed || e.code == errc::model_unsupported ||
           e.code == errc::out_of_memory || e.code == errc::usage;
}

class supervisor : public caf::event_based_actor {
 public:
    supervisor(caf::actor_config& cfg, supervisor_settings settings, std::shared_ptr<child_host> host,
        caf::actor scheduler, supervisor_callbacks callbacks)
        : caf::event_based_actor(cfg), settings_(std::move(settings)), host_(std::move(host)),
          scheduler_(std::move(scheduler)), callbacks_(std::move(callbacks)) {}

    const char* name() const override { return "supervisor"; }

    void on_exit() override {
        host_->set_sink(nullptr);
        fail_promises(fail(errc::shutting_down, "the engine is shutting down"));
        host_.reset();
        executor_ = nullptr;
        scheduler_ = nullptr;
    }

    caf::behavior make_behavior() override {
        host_->set_sink([to = caf::actor_cast<caf::actor_addr>(this)](child_event e) {
            if (auto alive = caf::actor_cast<caf::actor>(to)) caf::anon_send(alive, std::move(e));
        });
        // CAF's default would end the supervisor when somebody answers one of its messages with an error.
        set_error_handler(
            [](caf::error& e) { log::warn("supervisor_error message=\"{}\"", from_caf_error(e).message); });
        start();
        return {
            [this](const child_event& e) { on_event(e); },
            [this](timer_atom, std::uint64_t token) { on_timer(token); },
            [this](health_atom) { return on_health(); },
            [this](restart_atom) { return on_restart(); },
            [this](const fault_spec& f) { return on_fault(f); },
            [this](counters_atom) { return take_counters(); },
            [this](state_atom) { return state_json(report(), info_, host_->page(), faults_, log_, recoveries_); },
            [this](drain_atom) { return on_drain(); },
        };
    }

 private:
    // ---- an incarnation's life
    // ------------------------------------------------------------------------------------------
    void start() {
        ++epoch_;
        phase_ = executor_phase::loading;
        death_ = {};
        load_error_.reset();
        answers_ = true;
        cookie_ = random_cookie();
        log_.add("starting", epoch_, "");
        recoveries_.launched(epoch_, clock().now());
        stall_.reset(clock().now());
        host_->launch(epoch_, cookie_);
        arm_timer(watch_idle_every);
        announce();
    }

    void on_event(const child_event& e) {
        if (e.epoch != epoch_) return;
        switch (e.kind) {
        case child_event_kind::door:
            return say_hello(e.door);
        case child_event_kind::failed:
            load_error_ = e.err;
            log_.add("load_failed", epoch_, e.err.message);
            return host_->kill(epoch_);
        case child_event_kind::fired:
            faults_.fired(e.fault);
            log_.add("fault_fired", epoch_, e.fault);
            return;
        case child_event_kind::gone:
            return on_gone(e.exit);
        }
    }

    void say_hello(const caf::actor& door) {
        if (phase_ != executor_phase::loading) return;
        request(door, hello_deadline, hello_atom::value, cookie_)
            .then(
                [this, epoch = epoch_](const caf::actor& executor, const executor_info& i) {
                    if (epoch == epoch_ && phase_ == executor_phase::loading) attach(executor, i);
                },
                [this, epoch = epoch_](const caf::error& e) { refuse(epoch, e); });
    }

    void attach(const caf::actor& executor, const executor_info& i) {
        executor_ = executor;
        request(executor, hello_deadline, attach_atom::value, scheduler_)
            .then(
                [this, epoch = epoch_, i](const executor_info&) {
                    if (epoch == epoch_ && phase_ == executor_phase::loading) on_ready(i);
                },
                [this, epoch = epoch_](const caf::error& e) { refuse(epoch, e); });
    }

    void refuse(std::uint64_t epoch, const caf::error& e) {
        if (epoch != epoch_ || phase_ != executor_phase::loading) return;
        load_error_ = fail(errc::not_ready, "the executor does not answer its front: " + system().render(e));
        end_child();
    }

    void on_ready(const executor_info& i) {
        phase_ = executor_phase::up;
        info_ = i;
        recoveries_.ready(clock().now(), host_->page());
        stall_.reset(clock().now());
        next_heartbeat_ = clock().now() + heartbeat_every;
        cached_until_ = {};
        for (const auto& f : faults_.armed())
            request(executor_, hello_deadline, f).then([](bool) {}, [](const caf::error&) {});
        for (auto& p : std::exchange(fault_promises_, {})) p.deliver(true);
        send(scheduler_, executor_up{executor_, i});
        log_.add("ready", epoch_, fmt::format("pid {}", i.pid));
        if (died_at_)
            counters_.recovery_seconds.push_back(std::chrono::duration<double>(clock().now() - *died_at_).count());
        died_at_.reset();
        if (!std::exchange(ever_ready_, true) && callbacks_.first_start) callbacks_.first_start(i);
        for (auto& p : std::exchange(restart_promises_, {})) p.deliver(true);
        announce();
    }

    /// Ends the process; what follows comes with `gone`.
    void end_child() {
        phase_ = executor_phase::ending;
        host_->kill(epoch_);
        answer_probes(report());
        announce();
    }

    /// Of the incarnation that runs, or of the one that is just gone.
    std::uint64_t steps_done() const {
        const auto* page = host_->page();
        return page != nullptr ? page->steps_done.load(std::memory_order_acquire) : 0;
    }

    void on_gone(const child_exit& exit) {
        const bool was_ready = info_.has_value();
        const auto* page = host_->page();
        const std::uint64_t plan_started = page != nullptr ? page->plan_started.load(std::memory_order_acquire) : 0;
        const bool stepped = steps_done() > 0;
        faults_.executor_gone(steps_done());
        death_.exit = exit;
        death_.load_failed = load_error_.has_value() && !was_ready;
        const auto cause = classify(death_);
        executor_ = nullptr;
        info_.reset();
        if (!died_at_) died_at_ = clock().now();
        const std::string reason = death_.load_failed ? "load_failed: " + load_error_->message : describe(cause, exit);
        if (was_ready) send(scheduler_, executor_down{epoch_, std::string(actors::name(cause)), plan_started});
        if (drain_promise_.pending()) return finish_drain();
        phase_ = executor_phase::waiting;
        log_.add("fault", epoch_, reason);
        recoveries_.gone(reason, clock().now(), page);
        last_fault_ = reason;
        if (cause == death_cause::device_lost) degraded_until_ = clock().now() + quiet_period;
        if (!ever_ready_ && load_error_ && final_load_error(*load_error_)) return give_up(*load_error_);
        if (!host_->can_restart())
            return give_up(fail(errc::not_ready, "the executor inside this process has ended: " + reason));
        plan_restart(cause, was_ready, stepped);
    }

    void plan_restart(death_cause cause, bool was_ready, bool stepped) {
        ++counters_.restarts[std::string(actors::name(cause))];
        ++restarts_;
        std::uniform_real_distribution<double> jitter(0, 1);
        const auto next = policy_.on_death({cause, was_ready, stepped}, jitter(random_));
        if (next.circuit_open) {
            phase_ = executor_phase::down;
            down_reason_ = fmt::format("the executor died {} times in a row without completing a step, last: {}",
                policy_.deaths_in_a_row(), last_fault_);
            log_.add("circuit_open", epoch_, down_reason_);
            if (!ever_ready_) first_start_failed(load_error_.value_or(fail(errc::not_ready, down_reason_)));
            fail_promises(fail(errc::not_ready, down_reason_));
        } else if (next.delay.count() == 0) {
            answer_probes(report());
            return start();
        }
        answer_probes(report());
        arm_timer(next.delay);
        announce();
    }

    void give_up(const error& e) {
        phase_ = executor_phase::down;
        ++timer_token_;  // no timer of the past starts another one
        down_reason_ = e.message;
        log_.add("given_up", epoch_, e.message);
        if (!ever_ready_) first_start_failed(e);
        fail_promises(e);
        answer_probes(report());
        announce();
    }

    void first_start_failed(const error& e) {
        if (!std::exchange(first_start_failed_, true) && callbacks_.first_start) callbacks_.first_start(e);
    }

    // ---- watching
    // -------------------------------------------------------------------------------------------------------
    /// One timer at a time: an older one finds another token.
    void arm_timer(caf::timespan after) { delayed_send(this, after, timer_atom::value, ++timer_token_); }

    void on_timer(std::uint64_t token) {
        if (token != timer_token_) return;
        switch (phase_) {
        case executor_phase::waiting:
        case executor_phase::down:
            return start();
        case executor_phase::loading:
            return watch_loading();
        case executor_phase::up:
            return watch_running();
        case executor_phase::ending:
            return drain_promise_.pending() ? host_->kill(epoch_) : void();
        case executor_phase::stopped:
            return;
        }
    }

    void watch_loading() {
        const auto* page = host_->page();
        const std::uint64_t loaded = page != nullptr ? page->load_permille.load(std::memory_order_relaxed) : 0;
        if (stall_.observe(clock().now(), loaded, true) > load_stall_deadline)
            return on_stuck("loading makes no progress");
        arm_timer(watch_idle_every);
    }

    void watch_running() {
        const auto now = clock().now();
        const auto* page = host_->page();
        const auto status = read_status(*page, epoch_);
        const auto still = stall_.observe(now, status.progress + status.plans_done, status.busy);
        if (host_->can_restart() && still > progress_deadline(page->tick_ns.load(std::memory_order_acquire)))
            return on_stuck("no progress within a step");
        if (now >= next_heartbeat_) heartbeat();
        if (degraded_until_ && now >= *degraded_until_) degraded_until_.reset();
        announce();
        arm_timer(status.busy ? caf::timespan(watch_busy_every) : caf::timespan(watch_idle_every));
    }

    /// Finds a process that is frozen as a whole, also when nobody asks for its health.
    void heartbeat() {
        if (heartbeat_pending_) return;
        heartbeat_pending_ = true;
        next_heartbeat_ = clock().now() + heartbeat_every;
        request(executor_, no_answer_deadline, status_atom::value)
            .then(
                [this, epoch = epoch_](const executor_status&) {
                    heartbeat_pending_ = false;
                    if (epoch == epoch_) answers_ = true;
                },
                [this, epoch = epoch_](const caf::error&) {
                    heartbeat_pending_ = false;
                    if (epoch == epoch_ && phase_ == executor_phase::up && host_->can_restart())
                        on_stuck("the process does not answer");
                });
    }

    void on_stuck(const std::string& why) {
        death_.stuck = true;
        log_.add("stuck", epoch_, why);
        end_child();
    }

    // ---- questions
    // ------------------------------------------------------------------------------------------------------
    health_report report() const {
        const auto* page = host_->page();
        return describe({.phase = phase_,
            .ever_ready = ever_ready_,
            .answers = answers_,
            .device_lost = degraded_until_.has_value(),
            .epoch = epoch_,
            .restarts = restarts_,
            .last_fault = last_fault_,
            .down_reason = down_reason_,
            .load_progress = page != nullptr ? page->load_permille.load(std::memory_order_relaxed) / 1000.0 : 0,
            .probe_ms = probe_ms_});
    }

    /// Tells who follows the level, if it changed.
    void announce() {
        const auto now = report();
        if (now.status == announced_.status && now.reasons == announced_.reasons) return;
        announced_ = now;
        if (callbacks_.health_changed) callbacks_.health_changed(now);
    }

    caf::result<health_report> on_health() {
        if (phase_ != executor_phase::up || clock().now() < cached_until_) return report();
        probes_.push_back(make_response_promise());
        if (probes_.size() == 1) probe();
        return probes_.back();
    }

    void probe() {
        const auto sent = clock().now();
        request(executor_, limits::health_probe_deadline, status_atom::value)
            .then([this, epoch = epoch_, sent](const executor_status&) { on_probe(epoch, sent, true); },
                [this, epoch = epoch_, sent](const caf::error&) { on_probe(epoch, sent, false); });
    }

    void on_probe(std::uint64_t epoch, steady_time sent, bool answered) {
        if (epoch != epoch_ || phase_ != executor_phase::up) return;
        answers_ = answered;
        probe_ms_ = to_ms(clock().now() - sent);
        if (answered)
            cached_until_ = clock().now() + limits::health_cache;
        else
            heartbeat();
        answer_probes(report());
        announce();
    }

    void answer_probes(const health_report& r) {
        for (auto& p : std::exchange(probes_, {})) p.deliver(r);
    }

    caf::result<bool> on_restart() {
        if (!host_->can_restart())
            return make_caf_error(
                fail(errc::unsupported_parameter, "an executor inside the front cannot be restarted", "executor"));
        if (phase_ == executor_phase::stopped)
            return make_caf_error(fail(errc::shutting_down, "the engine is shutting down"));
        restart_promises_.push_back(make_response_promise());
        auto promise = restart_promises_.back();
        policy_.reset();
        log_.add("restarting", epoch_, "asked by an operator");
        if (phase_ == executor_phase::waiting || phase_ == executor_phase::down) {
            start();
        } else if (phase_ != executor_phase::ending) {
            death_.operator_restart = true;
            end_child();
        }
        return promise;
    }

    caf::result<bool> on_fault(const fault_spec& f) {
        if (!settings_.fault_injection)
            return make_caf_error(fail(errc::forbidden, "start with --fault-injection to arm faults"));
        if (f.target != "executor")
            return make_caf_error(
                fail(errc::unsupported_parameter, "the supervisor arms faults of the executor only", "target"));
        if (!known_fault(f.kind))
            return make_caf_error(fail(errc::invalid_request, f.kind + " is no kind of fault", "kind"));
        if (fatal_fault(f.kind) && !host_->can_restart())
            return make_caf_error(
                fail(errc::unsupported_parameter, "an executor inside the front has no fault that ends it", "kind"));
        const executor_fault armed{f.kind, f.after_steps, f.times, f.slow_ms, !f.request_contains.empty()};
        faults_.add(armed, phase_ == executor_phase::up ? steps_done() : 0);
        log_.add("fault_armed", epoch_, f.kind);
        if (armed.only_watched) send(scheduler_, f);
        auto promise = make_response_promise();
        if (phase_ != executor_phase::up) {  // on_ready tells the next one
            fault_promises_.push_back(promise);
            return promise;
        }
        request(executor_, hello_deadline, armed)
            .then([promise](bool ok) mutable { promise.deliver(ok); },
                [this, promise](const caf::error&) mutable {  // it went away: the next one is told
                    if (phase_ == executor_phase::up) return promise.deliver(true);
                    fault_promises_.push_back(promise);
                });
        return promise;
    }

    supervisor_counters take_counters() {
        auto now = counters_;
        counters_.recovery_seconds.clear();
        now.executor_pid = info_ ? info_->pid : 0;
        return now;
    }

    // ---- the end
    // --------------------------------------------------------------------------------------------------------
    caf::result<bool> on_drain() {
        if (drain_promise_.pending()) return make_caf_error(fail(errc::shutting_down, "the engine is shutting down"));
        drain_promise_ = make_response_promise();
        auto promise = drain_promise_;
        fail_promises(fail(errc::shutting_down, "the engine is shutting down"));
        if (phase_ == executor_phase::waiting || phase_ == executor_phase::down) {
            finish_drain();
        } else {
            if (phase_ != executor_phase::ending) host_->stop(epoch_);
            phase_ = executor_phase::ending;
            arm_timer(limits::executor_exit_deadline);
        }
        return promise;
    }

    void finish_drain() {
        phase_ = executor_phase::stopped;
        log_.add("stopped", epoch_, "");
        answer_probes(report());
        drain_promise_.deliver(true);
        quit();
    }

    void fail_promises(const error& e) {
        for (auto* list : {&restart_promises_, &fault_promises_})
            for (auto& p : std::exchange(*list, {})) p.deliver(make_caf_error(e));
        if (phase_ == executor_phase::stopped) answer_probes(report());
    }

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
    stall_watch stall_;
    std::minstd_rand random_{std::random_device{}()};

    bool ever_ready_ = false, first_start_failed_ = false, answers_ = true, heartbeat_pending_ = false;
    std::string last_fault_, down_reason_;
    steady_time next_heartbeat_{}, cached_until_{};
    std::optional<steady_time> died_at_, degraded_until_;
    double probe_ms_ = 0;
    health_report announced_{.status = ""};
    fault_book faults_;
    event_log log_;
    recovery_log recoveries_;
    supervisor_counters counters_;
    std::vector<caf::response_promise> probes_, restart_promises_, fault_promises_;
    caf::response_promise drain_promise_;
};

}  // namespace

caf::actor spawn_supervisor(caf::actor_system& system, supervisor_settings settings, std::unique_ptr<child_host> host,
    caf::actor scheduler, supervisor_callbacks callbacks) {
    CHECK(host && scheduler);
    return system.spawn<supervisor>(
        std::move(settings), std::shared_ptr<child_host>(std::move(host)), std::move(scheduler), std::move(callbacks));
}

}  // namespace troupe::actors
