#include "actors/executor/executor_actor.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>

#include "core/log.hpp"

namespace troupe::actors {
namespace {

/// Equal-time comparison: the answer's time must not tell how much of a guess was right.
bool same_secret(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    unsigned char difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
    return difference == 0;
}

caf::error refused() { return make_caf_error(fail(errc::unauthorized, "this executor belongs to another front")); }

struct executor_state {
    executor_parts parts;
    caf::node_id front;
    static inline const char* name = "executor";
};
using executor_self = caf::stateful_actor<executor_state>;

bool from_front(executor_self* self) {
    const auto& sender = self->current_sender();
    return sender && sender->node() == self->state.front;
}

caf::behavior executor_behavior(executor_self* self, executor_parts parts, caf::node_id front) {
    self->state.parts = std::move(parts);
    self->state.front = std::move(front);
    // CAF's default would end the executor when the front answers one of its answers with an error.
    self->set_error_handler(
        [](caf::error& e) { log::warn("executor_error message=\"{}\"", from_caf_error(e).message); });
    self->set_down_handler([self](caf::down_msg& d) {
        if (d.reason == caf::exit_reason::remote_link_unreachable && self->state.parts.link_lost)
            self->state.parts.link_lost();
    });
    return {
        [self](attach_atom, const caf::actor& scheduler) -> caf::result<executor_info> {
            if (!from_front(self)) return refused();
            self->monitor(scheduler);
            self->state.parts.sink->attach(scheduler);
            return self->state.parts.info;
        },
        [self](plan& p) {
            if (!from_front(self)) return;
            if (p.epoch != self->state.parts.info.epoch) {
                log::warn(
                    "plan_dropped reason=epoch plan={} epoch={} own={}", p.id, p.epoch, self->state.parts.info.epoch);
                return;
            }
            self->state.parts.work->submit(std::move(p));
        },
        [self](cancel_atom, const std::vector<sequence_id>& ids) {
            if (from_front(self)) self->state.parts.work->cancel(ids);
        },
        [self](status_atom) -> caf::result<executor_status> {
            if (!from_front(self)) return refused();
            return self->state.parts.work->status(self->state.parts.info.epoch);
        },
        [self](const executor_fault& f) -> caf::result<bool> {
            if (!from_front(self)) return refused();
            log::warn("fault_armed kind={} after_steps={} times={}", f.kind, f.after_steps, f.times);
            return self->state.parts.work->arm(f);
        },
    };
}

struct door_state {
    executor_parts parts;
    caf::actor executor;
    std::string cookie;
    std::function<void()> admitted;
    static inline const char* name = "door";
};

caf::behavior door_behavior(
    caf::stateful_actor<door_state>* self, executor_parts parts, std::string cookie, std::function<void()> admitted) {
    self->state = {std::move(parts), {}, std::move(cookie), std::move(admitted)};
    self->set_default_handler(
        [](caf::scheduled_actor*, caf::message_view&) -> caf::result<caf::message> { return refused(); });
    return {
        [self](hello_atom, const std::string& cookie) -> caf::result<caf::message> {
            auto& s = self->state;
            const auto& sender = self->current_sender();
            if (!sender || s.executor || !same_secret(cookie, s.cookie)) return refused();
            s.executor = self->spawn(executor_behavior, s.parts, sender->node());
            s.admitted();
            return caf::make_message(s.executor, s.parts.info);
        },
    };
}

}  // namespace

void result_sink::attach(caf::actor scheduler) {
    std::lock_guard lock(mutex_);
    scheduler_ = std::move(scheduler);
}

caf::actor result_sink::scheduler() {
    std::lock_guard lock(mutex_);
    return scheduler_;
}

void result_sink::send(plan_result r) {
    if (const auto to = scheduler()) caf::anon_send(to, std::move(r));
}

void result_sink::send(kv_job_result r) {
    if (const auto to = scheduler()) caf::anon_send(to, std::move(r));
}

caf::actor spawn_door(
    caf::actor_system& system, executor_parts parts, std::string cookie, std::function<void()> admitted) {
    return system.spawn(door_behavior, std::move(parts), std::move(cookie), std::move(admitted));
}

}  // namespace troupe::actors
