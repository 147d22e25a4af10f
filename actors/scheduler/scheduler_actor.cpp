// Receives, asks the policy, sends.
#include "actors/scheduler/scheduler_actor.hpp"

#include <algorithm>
#include <map>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/scheduler/meter_reader.hpp"
#include "core/log.hpp"

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;

constexpr auto usage_every = 1s;
constexpr std::size_t most_watched = 16;

struct scheduler_state;
using scheduler_self = caf::stateful_actor<scheduler_state>;

class scheduler_core {
 public:
    scheduler_core(caf::event_based_actor* self, scheduler_setup setup)
        : self_(self), policy_(setup.settings), meters_(std::move(setup.meters)) {}

    caf::result<bool> submit(submit_generation& g);
    void cancel(generation_id id);
    void stop_at(generation_id id, std::int64_t n);
    void owner_down(const caf::down_msg& d);
    void up(const executor_up& x);
    void down(const executor_down& x);
    void done(const plan_result& r);
    void job_done(const kv_job_result& r);
    void timer(std::uint64_t number);
    void watch(const fault_spec& f);
    void give_back(const memory_order& order);
    void pressed(const memory_pressure& p) { policy_.pressed(p); }
    caf::result<std::string> compact();
    std::string state() const { return state_json(policy_, now()); }
    void follow_usage(caf::actor compactor);
    void drain() { policy_.drain(); }
    void bound(const step_bounds& b);
    void follow_activity(caf::actor follower);
    bool end_all();

 private:
    steady_time now() const { return self_->clock().now(); }
    void go_on();
    void send_cancels();
    void deliver(notice n);
    void forget_owner(generation_id id);
    void set_timer();
    void report_usage();
    void answer_compact();
    void report_activity();

    caf::event_based_actor* self_;
    scheduler_policy policy_;
    meter_reader meters_;
    caf::actor executor_, compactor_, follower_;
    std::map<generation_id, caf::actor> owners_;
    std::vector<std::string> watched_;
    std::optional<steady_time> due_, reported_;
    std::uint64_t timer_ = 0;  ///< number of the one that counts
    kv_usage last_usage_;
    std::vector<caf::typed_response_promise<std::string>> compacting_;
    std::int64_t segments_before_ = 0;
    bool was_idle_ = true;
};

struct scheduler_state {
    static inline const char* name = "scheduler";
    std::unique_ptr<scheduler_core> core;
};

// ---- requests

caf::result<bool> scheduler_core::submit(submit_generation& g) {
    generation_request r{g.id, std::move(g.client_key), std::move(g.session), g.prompt, std::move(g.accepted),
        std::move(g.params), g.mu, g.batch_priority, false, g.resumed, g.keep};
    r.watch_text = std::any_of(watched_.begin(), watched_.end(),
        [&](const std::string& text) { return g.prompt_text.find(text) != std::string::npos; });
    const auto taken = policy_.submit(std::move(r), now());
    if (!taken) return make_caf_error(taken.error());
    const bool known = std::any_of(owners_.begin(), owners_.end(), [&](const auto& o) { return o.second == g.owner; });
    if (!known) self_->monitor(g.owner);
    owners_[g.id] = g.owner;
    // The answer comes before whatever the first plan has to tell.
    auto accepted = self_->make_response_promise<bool>();
    accepted.deliver(true);
    go_on();
    return accepted;
}

void scheduler_core::cancel(generation_id id) {
    policy_.cancel(id, now());
    go_on();
}

void scheduler_core::stop_at(generation_id id, std::int64_t n) {
    policy_.stop_at(id, n, now());
    go_on();
}

void scheduler_core::owner_down(const caf::down_msg& d) {
    std::vector<generation_id> orphans;
    for (const auto& [id, owner] : owners_)
        if (owner.address() == d.source) orphans.push_back(id);
    for (const generation_id id : orphans) policy_.cancel(id, now());
    go_on();
}

void scheduler_core::forget_owner(generation_id id) {
    const auto found = owners_.find(id);
    if (found == owners_.end()) return;
    const caf::actor owner = found->second;
    owners_.erase(found);
    const bool other = std::any_of(owners_.begin(), owners_.end(), [&](const auto& o) { return o.second == owner; });
    if (!other) self_->demonitor(owner);
}

void scheduler_core::deliver(notice n) {
    const generation_id id = about(n);
    const auto owner = owners_.find(id);
    if (owner == owners_.end()) return;
    const bool last = std::holds_alternative<generation_finished>(n);
    std::visit([&](auto& x) { self_->send(owner->second, std::move(x)); }, n);
    if (last) forget_owner(id);
}

// ---- the executor

void scheduler_core::up(const executor_up& x) {
    executor_ = x.executor;
    policy_.executor_up(x.info, now());
    log::info("scheduler_executor_up epoch={} sequence_limit={}", x.info.epoch, policy_.sequence_limit());
    go_on();
}

void scheduler_core::down(const executor_down& x) {
    executor_ = nullptr;
    policy_.executor_down(x.epoch, x.reason, x.plan_started, now());
    go_on();
}

void scheduler_core::done(const plan_result& r) {
    policy_.done(r, now());
    go_on();
}

void scheduler_core::job_done(const kv_job_result& r) {
    policy_.job_done(r, now());
    go_on();
}

void scheduler_core::watch(const fault_spec& f) {
    if (f.request_contains.empty()) return;
    if (watched_.size() >= most_watched) watched_.erase(watched_.begin());
    watched_.push_back(f.request_contains);
}

void scheduler_core::give_back(const memory_order& order) {
    policy_.give_back(order, now());
    go_on();
}

caf::result<std::string> scheduler_core::compact() {
    if (compacting_.empty()) segments_before_ = policy_.usage().segments_committed;
    compacting_.push_back(self_->make_response_promise<std::string>());
    auto promise = compacting_.back();
    give_back({});
    return promise;
}

void scheduler_core::answer_compact() {
    if (compacting_.empty() || policy_.giving_back()) return;
    const auto after = policy_.usage();
    const std::string text =
        "{\"segments_before\":" + std::to_string(segments_before_) +
        ",\"segments\":" + std::to_string(after.segments_committed) +
        ",\"bytes\":" + std::to_string(static_cast<std::uint64_t>(after.segments_committed) * after.segment_bytes) +
        "}";
    for (auto& p : std::exchange(compacting_, {})) p.deliver(text);
}

// ---- going on

void scheduler_core::send_cancels() {
    auto ids = policy_.take_cancels();
    if (executor_ && !ids.empty()) self_->send(executor_, cancel_atom::value, std::move(ids));
}

void scheduler_core::go_on() {
    send_cancels();
    while (auto p = policy_.next_plan(now()))
        if (executor_) self_->send(executor_, std::move(*p));
    send_cancels();
    policy_.tick(now());
    for (notice& n : policy_.take_notices()) deliver(std::move(n));
    meters_.read(policy_);
    report_usage();
    answer_compact();
    report_activity();
    set_timer();
}

void scheduler_core::set_timer() {
    const auto at = policy_.wakeup(now());
    if (!at || (due_ && *due_ <= *at && *due_ > now())) return;
    due_ = at;
    self_->delayed_send(self_, std::max<caf::timespan>(*at - now(), 1ms), timer_atom::value, ++timer_);
}

void scheduler_core::timer(std::uint64_t number) {
    if (number != timer_) return;
    due_.reset();
    go_on();
}

void scheduler_core::follow_usage(caf::actor compactor) {
    policy_.pressed({});  // what its predecessor said; it will say so if it still holds
    compactor_ = std::move(compactor);
    reported_.reset();
    report_usage();
}

void scheduler_core::report_activity() {
    const bool idle = policy_.idle();
    if (idle == was_idle_) return;
    was_idle_ = idle;
    if (idle) policy_.check();
    if (follower_) self_->send(follower_, work_state{idle});
}

void scheduler_core::follow_activity(caf::actor follower) {
    follower_ = std::move(follower);
    self_->send(follower_, work_state{was_idle_});
}

void scheduler_core::bound(const step_bounds& b) {
    policy_.bound_steps(b);
    go_on();
}

bool scheduler_core::end_all() {
    auto e = fail(errc::not_ready, "an operator unloaded the model; the next request loads it again");
    e.retry_after_ms = 1000;
    policy_.end_all(e, now());
    go_on();
    return true;
}

void scheduler_core::report_usage() {
    if (!compactor_) return;
    // Looked at only when it would be told: this is the path of every token.
    const bool working = reported_ && !last_usage_.idle && !policy_.idle();
    if (working && now() - *reported_ < usage_every) return;
    const kv_usage u = policy_.usage();
    if (reported_ && u == last_usage_) return;
    last_usage_ = u;
    reported_ = now();
    self_->send(compactor_, u);
}

caf::behavior scheduler_behavior(scheduler_self* self, scheduler_setup setup) {
    self->state.core = std::make_unique<scheduler_core>(self, std::move(setup));
    auto* core = self->state.core.get();
    self->set_down_handler([core](caf::down_msg& d) { core->owner_down(d); });
    return {
        [core](submit_generation& g) -> caf::result<bool> { return core->submit(g); },
        [core](cancel_atom, generation_id id) { core->cancel(id); },
        [core](stop_at_atom, generation_id id, std::int64_t n) { core->stop_at(id, n); },
        [core](const executor_up& x) { core->up(x); },
        [core](const executor_down& x) { core->down(x); },
        [core](const plan_result& r) { core->done(r); },
        [core](const kv_job_result& r) { core->job_done(r); },
        [core](timer_atom, std::uint64_t number) { core->timer(number); },
        [core](const fault_spec& f) { core->watch(f); },
        [core](compact_atom) { return core->compact(); },
        [core](const memory_pressure& p) { core->pressed(p); },
        [core](const memory_order& order) { core->give_back(order); },
        [core](compactor_atom, caf::actor& compactor) { core->follow_usage(std::move(compactor)); },
        [core](activity_atom, caf::actor& follower) { core->follow_activity(std::move(follower)); },
        [core](const step_bounds& b) { core->bound(b); },
        [core](unload_atom) { return core->end_all(); },
        [core](state_atom) { return core->state(); },
        [core](drain_atom) {
            core->drain();
            return true;
        },
    };
}

}  // namespace

caf::actor spawn_scheduler(caf::actor_system& system, scheduler_setup setup) {
    return system.spawn(scheduler_behavior, std::move(setup));
}

}  // namespace troupe::actors
