// Replays the shell of the supervisor actor: it receives, asks restart_policy and stall_watch, and acts.
#include "executor_host.hpp"

#include <csignal>

namespace troupe::actors::sim {
namespace {

using namespace std::chrono_literals;

constexpr auto tick = 1ms;  // of progress within a step
constexpr std::size_t tick_ns = 1'000'000;
constexpr double slow_factor = 40;

}  // namespace

void executor_host::start() {
    ++epoch_;
    phase_ = phase::loading;
    death_ = {};
    busy_ = hung_ = false;
    steps_ = plan_started_ = 0;
    child_.renew();
    const double ms = c_.uniform(0.3, 1) * c_.w.load_ms;
    if (c_.fault(c_.w.load_failure)) {
        c_.time.after(c_.uniform(0, ms), child_.guard([this] {
            death_.load_failed = true;
            gone({0, 1});
        }));
        return;
    }
    c_.time.after(ms, child_.guard([this] { loaded(); }));
}

void executor_host::loaded() {
    c_.w.info.epoch = epoch_;
    c_.w.info.kv_disk = c_.images.room = c_.w.kv_disk;
    c_.w.info.images = c_.images.list();
    jobs_awaited_ = 0;
    executor_ = std::make_unique<fake_executor>(c_.w.info, c_.random, c_.w.commit_failure, &c_.images);
    executor_->void_rows = c_.lively ? c_.w.void_rows : 0;
    phase_ = phase::up;
    stall_.reset(c_.now());
    news_.send(c_, 0.01, 0.2, front_.guard([this, info = c_.w.info] { listener_.executor_up(info); }));
}

// ---- work

bool executor_host::dies_now() {
    if (!c_.fault(c_.w.death)) return false;
    die(c_.w.deaths_look_like_crashes ? child_exit{SIGSEGV} : child_exit{SIGKILL});
    return true;
}

void executor_host::send(plan p) {
    plans_.send(c_, 0.05, 0.5, child_.guard([this, p = std::move(p)]() mutable {
        if (phase_ != phase::up || p.epoch != epoch_ || dies_now()) return;
        executor_->receive(std::move(p));
        work();
    }));
}

void executor_host::cancel(std::vector<sequence_id> ids) {
    cancels_.send(c_, 0.05, 0.5, child_.guard([this, ids = std::move(ids)] {
        if (phase_ == phase::up && !dies_now()) executor_->cancel(ids);
    }));
}

/// What the cost model has to find out: a step, a row, a prompt token and its depth.
double executor_host::step_ms(const plan& p) const {
    double ms = 2;
    for (const plan_row& r : p.rows) ms += r.n == 1 ? 0.5 : r.n * (0.2 + 0.0005 * r.pos);
    return ms;
}

void executor_host::work() {
    if (phase_ != phase::up || busy_ || !executor_->has_work()) return;
    if (!watching_) stall_.observe(c_.now(), progress(), false);  // the supervisor reads on while nothing is to do
    busy_ = true;
    step_began_ = c_.now();
    plan_started_ = executor_->next().id;
    double ms = c_.uniform(0.8, 1.2) * step_ms(executor_->next());
    if (c_.fault(c_.w.slow)) ms *= slow_factor;
    watch();
    if (c_.fault(c_.w.hang)) {
        hung_ = true;
        ++hangs_;
        return;
    }
    if (c_.fault(c_.w.death)) {
        c_.time.after(c_.uniform(0, ms),
            child_.guard([this] { die(c_.w.deaths_look_like_crashes ? child_exit{SIGABRT} : child_exit{SIGKILL}); }));
        return;
    }
    executor_->memory_short = memory_short_;
    auto result = executor_->step();
    if (!result) {
        c_.time.after(c_.uniform(0, ms), child_.guard([this] { die({SIGSEGV}); }));
        return;
    }
    result->step_us = static_cast<std::uint64_t>(ms * 1000);
    c_.time.after(ms, child_.guard([this, r = std::move(*result)]() mutable { step_over(std::move(r)); }));
}

void executor_host::step_over(std::optional<plan_result> r) {
    busy_ = false;
    ++steps_;
    for (const auto& f : executor_->faults) c_.wrong(f);
    executor_->faults.clear();
    if (dies_now()) return;
    begin_jobs();
    answer(std::move(*r));
    work();  // the next plan runs while this result travels
}

/// Once on its way a result arrives, be the process dead by then or not; a front that is dead gets none.
void executor_host::answer(plan_result r) {
    last_ = r;
    results_.send(c_, 0.05, 0.5, front_.guard([this, r = std::move(r)] {
        if (r.epoch == epoch_ || c_.chance(c_.w.stale)) listener_.plan_done(r);
    }));
}

/// Jobs begun by plans are finished some time later, beside the steps.
void executor_host::begin_jobs() {
    for (; jobs_awaited_ < executor_->n_jobs(); ++jobs_awaited_)
        c_.time.after(c_.uniform(0.1, c_.chance(0.1) ? 8000 : 200), child_.guard([this] { finish_job(); }));
}

void executor_host::finish_job() {
    if (phase_ != phase::up) return;
    --jobs_awaited_;
    for (auto& [file, image] : c_.images.images) image.damaged = image.damaged || c_.fault(c_.w.image_damage);
    const kv_job_result r = executor_->finish_job();
    results_.send(c_, 0.05, 0.5, front_.guard([this, r] { listener_.job_done(r); }));
}

// ---- death

void executor_host::die(child_exit exit) {
    if (phase_ == phase::ending) return;
    phase_ = phase::ending;
    if (executor_)
        for (const auto& f : executor_->faults) c_.wrong(f);
    child_.renew();
    c_.time.after(c_.uniform(0.1, 20), child_.guard([this, exit] { gone(exit); }));
}

void executor_host::gone(child_exit exit) {
    ++deaths_;
    const bool was_ready = executor_ != nullptr, stepped = steps_ > 0;
    executor_.reset();
    death_.exit = exit;
    const death_cause cause = classify(death_);
    const std::string reason(name(cause));
    child_.renew();
    phase_ = phase::waiting;
    if (was_ready) {
        const auto epoch = epoch_, started = plan_started_;
        news_.send(c_, 0.01, 0.2,
            front_.guard([this, epoch, reason, started] { listener_.executor_down(epoch, reason, started); }));
        // Said again when its successor is up, it must not hurt that one; nor must what the dead one said last.
        if (c_.fault(c_.w.stale))
            c_.time.after(c_.uniform(0, 400), front_.guard([this, epoch, reason, started] {
                if (epoch != epoch_) listener_.executor_down(epoch, reason, started);
                listener_.plan_done(last_);
            }));
    }
    deaths_without_step_ = stepped ? 1 : deaths_without_step_ + 1;
    const auto next = policy_.on_death({cause, was_ready, stepped}, c_.uniform(0, 1));
    if (next.circuit_open) {
        ++circuits_;
        if (deaths_without_step_ < 5) c_.wrong("the circuit opens early");
    }
    if (stepped && next.delay.count() != 0) c_.wrong("a first restart is not immediate");
    if (next.delay > 61s) c_.wrong("a restart that is not in sight");
    c_.time.at(c_.now() + next.delay, front_.guard([this] { start(); }));
}

// ---- the watch

std::uint64_t executor_host::progress() const {
    const auto ticks = busy_ && !hung_ ? static_cast<std::uint64_t>((c_.now() - step_began_) / tick) : 0;
    return steps_ * 1'000'000 + ticks;
}

/// At once and every 250 ms while a plan is out, like the supervisor.
void executor_host::watch() {
    if (watching_ || phase_ != phase::up || !busy_) return;
    const bool stuck = stall_.observe(c_.now(), progress(), busy_) > progress_deadline(tick_ns);
    if (stuck && !hung_) c_.wrong("a slow or idle executor is taken for a stuck one");
    if (hung_ && c_.now() - step_began_ > 3s && !stuck) c_.wrong("a stuck executor is not found out");
    if (stuck) {
        death_.stuck = true;
        return die({SIGKILL});
    }
    watching_ = true;
    c_.time.after(250, front_.guard([this] {
        watching_ = false;
        watch();
    }));
}

}  // namespace troupe::actors::sim
