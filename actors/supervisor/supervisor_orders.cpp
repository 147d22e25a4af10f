// The supervisor's answers: health, restarts and faults asked for by an operator, and the end.
#include <fmt/format.h>

#include "actors/executor/faults.hpp"
#include "actors/supervisor/supervisor_actor.hpp"
#include "core/limits.hpp"

namespace troupe::actors {

health_report supervisor::report() const {
    const auto* page = host_->page();
    return describe({.phase = phase_,
        .ever_ready = ever_ready_,
        .answers = answers_,
        .asleep = asleep_,
        .level = ladder_.level(),
        .strained = ladder_.reason(),
        .epoch = epoch_,
        .restarts = restarts_,
        .last_fault = last_fault_,
        .down_reason = down_reason_,
        .load_progress = page != nullptr ? page->load_permille.load(std::memory_order_relaxed) / 1000.0 : 0,
        .probe_ms = probe_ms_});
}

/// Tells who follows the level, if it changed.
void supervisor::announce() {
    const auto now = report();
    if (now.status == announced_.status && now.reasons == announced_.reasons && now.level == announced_.level) return;
    announced_ = now;
    if (callbacks_.health_changed) callbacks_.health_changed(now);
}

caf::result<health_report> supervisor::on_health() {
    if (phase_ != executor_phase::up || clock().now() < cached_until_) return report();
    probes_.push_back(make_response_promise());
    if (probes_.size() == 1) probe();
    return probes_.back();
}

void supervisor::probe() {
    const auto sent = clock().now();
    request(executor_, limits::health_probe_deadline, status_atom::value)
        .then([this, epoch = epoch_, sent](const executor_status&) { on_probe(epoch, sent, true); },
            [this, epoch = epoch_, sent](const caf::error&) { on_probe(epoch, sent, false); });
}

void supervisor::on_probe(std::uint64_t epoch, steady_time sent, bool answered) {
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

void supervisor::answer_probes(const health_report& r) {
    for (auto& p : std::exchange(probes_, {})) p.deliver(r);
}

caf::result<bool> supervisor::on_restart() {
    if (!host_->can_restart())
        return make_caf_error(
            fail(errc::unsupported_parameter, "an executor inside the front cannot be restarted", "executor"));
    if (phase_ == executor_phase::stopped)
        return make_caf_error(fail(errc::shutting_down, "the engine is shutting down"));
    restart_promises_.push_back(make_response_promise());
    auto promise = restart_promises_.back();
    policy_.reset();
    log_.add("restarting", epoch_, "asked by an operator");
    if (phase_ == executor_phase::waiting || phase_ == executor_phase::down || phase_ == executor_phase::sleeping) {
        start();
    } else if (phase_ != executor_phase::ending) {
        death_.operator_restart = true;
        end_child();
    }
    return promise;
}

caf::result<bool> supervisor::on_fault(const fault_spec& f) {
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
    if (phase_ == executor_phase::sleeping) return true;  // the one that wakes is told
    auto promise = make_response_promise();
    if (phase_ != executor_phase::up) {  // on_ready tells the next one
        fault_promises_.push_back(promise);
        return promise;
    }
    request(executor_, executor_hello_deadline, armed)
        .then([promise](bool ok) mutable { promise.deliver(ok); },
            [this, promise](const caf::error&) mutable {  // it went away: the next one is told
                if (phase_ == executor_phase::up) return promise.deliver(true);
                fault_promises_.push_back(promise);
            });
    return promise;
}

supervisor_counters supervisor::take_counters() {
    auto now = counters_;
    counters_.recovery_seconds.clear();
    now.executor_pid = info_ ? info_->pid : 0;
    return now;
}

// ---- the end

caf::result<bool> supervisor::on_drain() {
    if (drain_promise_.pending()) return make_caf_error(fail(errc::shutting_down, "the engine is shutting down"));
    drain_promise_ = make_response_promise();
    auto promise = drain_promise_;
    fail_promises(fail(errc::shutting_down, "the engine is shutting down"));
    if (phase_ == executor_phase::waiting || phase_ == executor_phase::down || phase_ == executor_phase::sleeping) {
        finish_drain();
    } else {
        if (phase_ != executor_phase::ending) host_->stop(epoch_);
        phase_ = executor_phase::ending;
        arm_timer(limits::executor_exit_deadline);
    }
    return promise;
}

void supervisor::finish_drain() {
    phase_ = executor_phase::stopped;
    log_.add("stopped", epoch_, "");
    answer_probes(report());
    drain_promise_.deliver(true);
    quit();
}

void supervisor::fail_promises(const error& e) {
    for (auto* list : {&restart_promises_, &fault_promises_, &unload_promises_})
        for (auto& p : std::exchange(*list, {})) p.deliver(make_caf_error(e));
    if (phase_ == executor_phase::stopped) answer_probes(report());
}

}  // namespace troupe::actors
