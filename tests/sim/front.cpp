// The scheduler's, the compactor's and the store's shells.
#include "front.hpp"

namespace troupe::actors::sim {
namespace {

using namespace std::chrono_literals;

constexpr auto usage_every = 1s;

}  // namespace

front::front(context& c, fake_disk& disk)
    : c_(c), disk_(disk), policy_(c.w.settings), watch_(c), host_(c, *this),
      compactor_(std::chrono::seconds(c.w.shrink_after_s)), writer_(store_writer(backlog_)) {}

void front::serve(people& p) {
    people_ = &p;
    for (const auto& name : disk_.unfinished()) find_room(name, true);
    host_.launch();
}

// ---- the scheduler

void front::executor_up(const executor_info& info) {
    policy_.executor_up(info, c_.now());
    poked_ = true;
}

void front::executor_down(std::uint64_t epoch, const std::string& reason, std::uint64_t plan_started) {
    const bool now = policy_.up() && policy_.info()->epoch == epoch, was_up = policy_.up();
    if (now) watch_.executor_died(reason, plan_started);
    policy_.executor_down(epoch, reason, plan_started, c_.now());
    poked_ = true;
    if (!now && was_up && !policy_.up()) c_.wrong("a dead executor's death is taken for its successor's");
}

void front::plan_done(const plan_result& r) {
    policy_.done(r, c_.now());
    watch_.plan_done(r.plan);
    poked_ = true;
}

void front::job_done(const kv_job_result& r) {
    policy_.job_done(r, c_.now());
    poked_ = true;
}

void front::cancel(generation_id id) {
    to_scheduler_.send(c_, 0.01, 0.1, alive_.guard([this, id] {
        if (policy_.entries().contains(id) && policy_.entries().at(id)->is != phase::ending) watch_.cancelled(id);
        policy_.cancel(id, c_.now());
        poked_ = true;
    }));
}

void front::deliver(const notice& n) {
    watch_.said(n, policy_);
    const auto owner = owners_.find(about(n));
    if (owner == owners_.end()) return;
    const std::string name = owner->second;
    if (std::holds_alternative<generation_finished>(n)) owners_.erase(owner);
    const auto found = rooms_.find(name);
    if (found == rooms_.end() || !found->second.actor) return;
    session& s = *found->second.actor;
    s.in.send(c_, 0.01, 0.3, s.alive.guard([this, &r = found->second, n] {
        if (about(n) != r.actor->generation || !r.actor->run) return;
        take(r, std::visit([&](const auto& x) { return r.actor->run->on(x); }, n));
    }));
}

void front::go_on() {
    if (std::exchange(poked_, false)) run_scheduler();
    watch_.check(policy_, host_.well());
}

/// Only a message to the scheduler makes it look: what it is to do later it must have asked a timer for.
void front::run_scheduler() {
    auto cancels = policy_.take_cancels();
    if (!cancels.empty()) host_.cancel(std::move(cancels));
    while (auto p = policy_.next_plan(c_.now())) {
        if (!policy_.up()) c_.wrong("a plan for nobody");
        watch_.planned(*p, policy_);
        host_.send(std::move(*p));
    }
    cancels = policy_.take_cancels();
    if (!cancels.empty()) host_.cancel(std::move(cancels));
    policy_.tick(c_.now());
    for (const notice& n : policy_.take_notices()) deliver(n);
    policy_.take_observations();
    report_usage();
    policy_.check();
    set_timer();
}

void front::set_timer() {
    const auto at = policy_.wakeup(c_.now());
    if (!at || (alarm_ && *alarm_ <= *at && *alarm_ > c_.now())) return;
    alarm_ = std::max(*at, c_.now() + 1ms);
    c_.time.at(*alarm_, alive_.guard([this] { poked_ = true; }));
}

void front::check_idle() {
    if (!policy_.idle()) c_.wrong("not idle at the end");
    watch_.check_end();
    if (policy_.wakeup(c_.now())) c_.wrong("a timer though idle");
    if (!policy_.kv()) return;
    for (std::size_t g = 0; g < policy_.kv()->pool().n_groups(); ++g)
        if (policy_.kv()->pool().counts(g).owned != 0) c_.wrong("blocks leak");
    for (const auto& [name, r] : rooms_)
        if (r.actor && (r.actor->run || !r.actor->out.empty())) c_.wrong("session " + name + " is not done");
}

// ---- the compactor

void front::report_usage() {
    const kv_usage u = policy_.usage();
    if (usage_told_ && (u == usage_ || (u.idle == usage_.idle && !u.idle && c_.now() - *usage_told_ < usage_every)))
        return;
    usage_ = u;
    usage_told_ = c_.now();
    compactor_.usage(u, c_.now());
    ask_compactor();
}

void front::ask_compactor() {
    while (const auto order = compactor_.decide(c_.now())) give_back(*order);
    const auto at = compactor_.wakeup();
    if (!at || (compactor_alarm_ && *compactor_alarm_ <= *at && *compactor_alarm_ > c_.now())) return;
    compactor_alarm_ = std::max(*at, c_.now() + 1ms);
    c_.time.at(*compactor_alarm_, alive_.guard([this] { ask_compactor(); }));
}

void front::give_back(const memory_order& order) {
    policy_.give_back(order, c_.now());
    poked_ = true;
}

// ---- the store

apply_records front::disk() {
    return [this](std::span<const record> records) { return disk_.apply(records); };
}

void front::send_write(store_writer::rows rows, std::function<void(saved)> acknowledged) {
    to_store_.send(c_, 0.01, 0.1, store_.guard([this, w = write{std::move(rows), std::move(acknowledged)}] {
        waiting_.push_back(w);
        if (std::exchange(flushing_, true)) return;
        c_.time.after(c_.uniform(0.05, c_.chance(0.05) ? 40 : 1), store_.guard([this] { flush(); }));
    }));
}

void front::flush() {
    flushing_ = false;
    const auto writes = std::exchange(waiting_, {});
    std::vector<store_writer::rows> rows;
    for (const auto& w : writes) rows.push_back(w.rows);
    const bool was_degraded = writer_->degraded();
    const auto how = writer_->commit(rows, disk());
    if (!was_degraded && writer_->degraded()) c_.time.after(1000, store_.guard([this] { retry_disk(); }));
    for (std::size_t i = 0; i < writes.size(); ++i)
        c_.time.after(0.05, alive_.guard([ack = writes[i].acknowledged, h = how[i]] { ack(h); }));
}

void front::retry_disk() {
    if (!writer_->retry(disk())) c_.time.after(1000, store_.guard([this] { retry_disk(); }));
}

/// What it had not written or acknowledged is sent to its successor again, by those who wrote it.
void front::crash_store() {
    waiting_.clear();
    flushing_ = false;
    store_.renew();
    writer_.emplace(backlog_);
    if (!backlog_->empty()) {
        writer_->failed("records wait for the disk");
        c_.time.after(1, store_.guard([this] { retry_disk(); }));
    }
    const auto own = unsettled_;
    for (const auto& [number, w] : own) send_write(w.rows, w.acknowledged);
    for (auto& [name, r] : rooms_)
        if (r.actor) r.actor->out.each_unsettled([this, &r = r](const out_item& i) { send_unsettled(r, i); });
}

}  // namespace troupe::actors::sim
