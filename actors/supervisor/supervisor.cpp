#include "actors/supervisor/supervisor_actor.hpp"

#include <algorithm>

#include <caf/send.hpp>
#include <fmt/format.h>
#include <openssl/rand.h>
#include <unistd.h>

#include "core/check.hpp"
#include "core/limits.hpp"
#include "core/log.hpp"

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;

constexpr auto watch_busy_every = 250ms;
constexpr auto watch_idle_every = 1s;       // the counters are read from shared memory: nearly free
constexpr auto heartbeat_every = 2s;        // a round trip through the executor's actor
constexpr auto no_answer_deadline = 4s;     // of that actor, which does no work of its own
constexpr auto load_stall_deadline = 120s;  // without any progress of loading

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

}  // namespace

supervisor::supervisor(caf::actor_config& cfg, supervisor_settings settings, std::shared_ptr<child_host> host,
    caf::actor scheduler, supervisor_callbacks callbacks)
    : caf::event_based_actor(cfg), settings_(std::move(settings)), host_(std::move(host)),
      scheduler_(std::move(scheduler)), callbacks_(std::move(callbacks)), idle_(settings_.unload_after) {}

void supervisor::on_exit() {
    host_->set_sink(nullptr);
    fail_promises(fail(errc::shutting_down, "the engine is shutting down"));
    host_.reset();
    executor_ = nullptr;
    scheduler_ = nullptr;
}

caf::behavior supervisor::make_behavior() {
    host_->set_sink([to = caf::actor_cast<caf::actor_addr>(this)](child_event e) {
        if (auto alive = caf::actor_cast<caf::actor>(to)) caf::anon_send(alive, std::move(e));
    });
    // CAF's default would end the supervisor when somebody answers one of its messages with an error.
    set_error_handler([](caf::error& e) { log::warn("supervisor_error message=\"{}\"", from_caf_error(e).message); });
    start();
    send(scheduler_, activity_atom::value, caf::actor_cast<caf::actor>(this));
    delayed_send(this, memory_sampled_every, sample_atom::value);
    return {
        [this](const child_event& e) { on_event(e); },
        [this](timer_atom, std::uint64_t token) { on_timer(token); },
        [this](timer_atom, sleep_atom) { on_sleep_timer(); },
        [this](sample_atom) { sample_memory(); },
        [this](const work_state& w) { on_work(w); },
        [this](health_atom) { return on_health(); },
        [this](restart_atom) { return on_restart(); },
        [this](unload_atom) { return on_unload(); },
        [this](const fault_spec& f) { return on_fault(f); },
        [this](counters_atom) { return take_counters(); },
        [this](state_atom) { return state_json(report(), info_, host_->page(), faults_, log_, recoveries_); },
        [this](drain_atom) { return on_drain(); },
    };
}

// ---- an incarnation's life

void supervisor::start() {
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

void supervisor::on_event(const child_event& e) {
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

void supervisor::say_hello(const caf::actor& door) {
    if (phase_ != executor_phase::loading) return;
    request(door, executor_hello_deadline, hello_atom::value, cookie_)
        .then(
            [this, epoch = epoch_](const caf::actor& executor, const executor_info& i) {
                if (epoch == epoch_ && phase_ == executor_phase::loading) attach(executor, i);
            },
            [this, epoch = epoch_](const caf::error& e) { refuse(epoch, e); });
}

void supervisor::attach(const caf::actor& executor, const executor_info& i) {
    executor_ = executor;
    request(executor, executor_hello_deadline, attach_atom::value, scheduler_)
        .then(
            [this, epoch = epoch_, i](const executor_info&) {
                if (epoch == epoch_ && phase_ == executor_phase::loading) on_ready(i);
            },
            [this, epoch = epoch_](const caf::error& e) { refuse(epoch, e); });
}

void supervisor::refuse(std::uint64_t epoch, const caf::error& e) {
    if (epoch != epoch_ || phase_ != executor_phase::loading) return;
    load_error_ = fail(errc::not_ready, "the executor does not answer its front: " + system().render(e));
    end_child();
}

void supervisor::on_ready(const executor_info& i) {
    phase_ = executor_phase::up;
    info_ = i;
    recoveries_.ready(clock().now(), host_->page());
    stall_.reset(clock().now());
    asleep_ = false;
    idle_.work(idle_.idle(), clock().now());
    next_heartbeat_ = clock().now() + heartbeat_every;
    cached_until_ = {};
    for (const auto& f : faults_.armed())
        request(executor_, executor_hello_deadline, f).then([](bool) {}, [](const caf::error&) {});
    for (auto& p : std::exchange(fault_promises_, {})) p.deliver(true);
    send(scheduler_, executor_up{executor_, i});
    log_.add("ready", epoch_, fmt::format("pid {}", i.pid));
    if (died_at_)
        counters_.recovery_seconds.push_back(std::chrono::duration<double>(clock().now() - *died_at_).count());
    died_at_.reset();
    if (!std::exchange(ever_ready_, true) && callbacks_.first_start) callbacks_.first_start(i);
    for (auto& p : std::exchange(restart_promises_, {})) p.deliver(true);
    arm_sleep();
    announce();
}

/// Ends the process; what follows comes with `gone`.
void supervisor::end_child() {
    asleep_ = false;  // also of one that was waking up: it is a fault now
    phase_ = executor_phase::ending;
    host_->kill(epoch_);
    answer_probes(report());
    announce();
}

/// Of the incarnation that runs, or of the one that is just gone.
std::uint64_t supervisor::steps_done() const {
    const auto* page = host_->page();
    return page != nullptr ? page->steps_done.load(std::memory_order_acquire) : 0;
}

void supervisor::on_gone(const child_exit& exit) {
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
    if (!died_at_ && !asleep_) died_at_ = clock().now();
    const std::string reason = death_.load_failed ? "load_failed: " + load_error_->message : describe(cause, exit);
    if (was_ready) send(scheduler_, executor_down{epoch_, std::string(actors::name(cause)), plan_started});
    if (drain_promise_.pending()) return finish_drain();
    if (asleep_ && phase_ == executor_phase::ending) return asleep();
    asleep_ = false;
    phase_ = executor_phase::waiting;
    log_.add("fault", epoch_, reason);
    recoveries_.gone(reason, clock().now(), page);
    last_fault_ = reason;
    judge(cause);
    if (!ever_ready_ && load_error_ && final_load_error(*load_error_)) return give_up(*load_error_);
    if (!host_->can_restart())
        return give_up(fail(errc::not_ready, "the executor inside this process has ended: " + reason));
    plan_restart(cause, was_ready, stepped);
}

/// What the death says about how much may be asked of the next incarnation.
void supervisor::judge(death_cause cause) {
    const bool no_memory = death_.load_failed && load_error_->code == errc::out_of_memory;
    if (ladder_.on_death(strain_of(cause, no_memory), clock().now())) tell_level();
}

void supervisor::plan_restart(death_cause cause, bool was_ready, bool stepped) {
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

void supervisor::give_up(const error& e) {
    phase_ = executor_phase::down;
    ++timer_token_;  // no timer of the past starts another one
    down_reason_ = e.message;
    log_.add("given_up", epoch_, e.message);
    if (!ever_ready_) first_start_failed(e);
    fail_promises(e);
    answer_probes(report());
    announce();
}

void supervisor::first_start_failed(const error& e) {
    if (!std::exchange(first_start_failed_, true) && callbacks_.first_start) callbacks_.first_start(e);
}

// ---- watching

/// One timer at a time: an older one finds another token.
void supervisor::arm_timer(caf::timespan after) { delayed_send(this, after, timer_atom::value, ++timer_token_); }

void supervisor::on_timer(std::uint64_t token) {
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
        return drain_promise_.pending() || asleep_ ? host_->kill(epoch_) : void();
    case executor_phase::sleeping:
    case executor_phase::stopped:
        return;
    }
}

void supervisor::watch_loading() {
    const auto* page = host_->page();
    const std::uint64_t loaded = page != nullptr ? page->load_permille.load(std::memory_order_relaxed) : 0;
    if (stall_.observe(clock().now(), loaded, true) > load_stall_deadline) return on_stuck("loading makes no progress");
    arm_timer(watch_idle_every);
}

void supervisor::watch_running() {
    const auto now = clock().now();
    const auto* page = host_->page();
    const auto status = read_status(*page, epoch_);
    const auto still = stall_.observe(now, status.progress + status.plans_done, status.busy);
    if (host_->can_restart() && still > progress_deadline(page->tick_ns.load(std::memory_order_acquire)))
        return on_stuck("no progress within a step");
    if (now >= next_heartbeat_) heartbeat();
    if (ladder_.on_time(now)) tell_level();
    announce();
    arm_timer(status.busy ? caf::timespan(watch_busy_every) : caf::timespan(watch_idle_every));
}

/// Finds a process that is frozen as a whole, also when nobody asks for its health.
void supervisor::heartbeat() {
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

void supervisor::on_stuck(const std::string& why) {
    death_.stuck = true;
    log_.add("stuck", epoch_, why);
    end_child();
}

void supervisor::tell_level() {
    const auto reason = ladder_.reason();
    log_.add(reason.empty() ? "restored" : "degraded", epoch_,
        fmt::format("{}{}{}", actors::name(ladder_.level()), reason.empty() ? "" : ": ", reason));
    send(scheduler_, bounds_of(ladder_.level()));
}

/// Both processes; what the executor holds for KV is in a budget and no leak.
void supervisor::sample_memory() {
    delayed_send(this, memory_sampled_every, sample_atom::value);
    const auto look = [&](leak_watch& watch, const char* process, std::int64_t pid, std::uint64_t budgeted) {
        const auto bytes = settings_.memory_of(pid);
        if (bytes == 0) return;
        const auto v = watch.add(pid, static_cast<double>(bytes - std::min(bytes, budgeted)), clock().now());
        if (!v) return;
        if (callbacks_.memory_trend) callbacks_.memory_trend(process, v->bytes_per_hour, v->leaking && v->news);
        if (v->leaking && v->news)
            log_.add("warning", epoch_,
                fmt::format("the {} process grows by {:.0f} MiB an hour", process, v->bytes_per_hour / (1 << 20)));
    };
    look(front_memory_, "front", getpid(), 0);
    if (info_ && info_->pid > 0 && info_->pid != getpid())
        look(executor_memory_, "executor", info_->pid, host_->page()->kv_bytes.load(std::memory_order_relaxed));
}

// ---- sleep

void supervisor::on_work(const work_state& w) {
    idle_.work(w.idle, clock().now());
    if (!w.idle && phase_ == executor_phase::sleeping) return start();
    arm_sleep();
}

/// One timer at a time, however often work comes and goes: it looks again when it finds that it came too early.
void supervisor::arm_sleep() {
    const auto due = idle_.due();
    if (!due || sleep_armed_ || phase_ != executor_phase::up || !host_->can_restart()) return;
    sleep_armed_ = true;
    delayed_send(this, std::max<caf::timespan>(*due - clock().now(), 1ms), timer_atom::value, sleep_atom::value);
}

void supervisor::on_sleep_timer() {
    sleep_armed_ = false;
    const auto due = idle_.due();
    if (!due || phase_ != executor_phase::up || drain_promise_.pending()) return;
    if (clock().now() < *due) return arm_sleep();
    log_.add("unloading", epoch_, "nothing to do");
    fall_asleep();
}

/// The scheduler first, so that it sends nothing more to a process that leaves.
void supervisor::fall_asleep() {
    if (info_) send(scheduler_, executor_down{epoch_, "unloaded", 0});
    executor_ = nullptr;
    info_.reset();
    recoveries_.asleep(host_->page());
    asleep_ = true;
    phase_ = executor_phase::ending;
    host_->stop(epoch_);
    arm_timer(limits::executor_exit_deadline);
    answer_probes(report());
    announce();
}

void supervisor::asleep() {
    phase_ = executor_phase::sleeping;
    ++timer_token_;  // no timer of the past wakes it
    log_.add("sleeping", epoch_, "");
    for (auto* list : {&unload_promises_, &fault_promises_})  // a fault is armed in the one that wakes
        for (auto& p : std::exchange(*list, {})) p.deliver(true);
    answer_probes(report());
    announce();
    // After an unload it only supposes that nothing is left to do; the answer tells, and wakes it.
    send(scheduler_, activity_atom::value, caf::actor_cast<caf::actor>(this));
    if (!idle_.idle() || !restart_promises_.empty()) start();
}

/// An operator's order counts for those who wait or run as well: they end, with an error that says so.
caf::result<bool> supervisor::on_unload() {
    if (!host_->can_restart())
        return make_caf_error(
            fail(errc::unsupported_parameter, "an executor inside the front cannot be unloaded", "executor"));
    if (phase_ == executor_phase::stopped || drain_promise_.pending())
        return make_caf_error(fail(errc::shutting_down, "the engine is shutting down"));
    if (!ever_ready_) return make_caf_error(fail(errc::not_ready, "the model was never loaded yet"));
    if (phase_ == executor_phase::sleeping) return true;
    unload_promises_.push_back(make_response_promise());
    auto promise = unload_promises_.back();
    log_.add("unloading", epoch_, "asked by an operator");
    request(scheduler_, executor_hello_deadline, unload_atom::value)
        .then([this](bool) { unload_now(); }, [this](const caf::error&) { unload_now(); });
    return promise;
}

void supervisor::unload_now() {
    idle_.work(true, clock().now());
    if (phase_ == executor_phase::up || phase_ == executor_phase::loading) return fall_asleep();
    asleep_ = true;
    if (phase_ == executor_phase::waiting || phase_ == executor_phase::down || phase_ == executor_phase::sleeping)
        asleep();
}

caf::actor spawn_supervisor(caf::actor_system& system, supervisor_settings settings, std::unique_ptr<child_host> host,
    caf::actor scheduler, supervisor_callbacks callbacks) {
    CHECK(host && scheduler);
    return system.spawn<supervisor>(
        std::move(settings), std::shared_ptr<child_host>(std::move(host)), std::move(scheduler), std::move(callbacks));
}

}  // namespace troupe::actors
