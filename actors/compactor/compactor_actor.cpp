#include "actors/compactor/compactor_actor.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/compactor/policy.hpp"
#include "actors/messages.hpp"
#include "actors/store/store_messages.hpp"
#include "core/log.hpp"

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;

struct compactor_state {
    static inline const char* name = "compactor";
    std::unique_ptr<compactor_policy> policy;
    caf::actor scheduler;
    std::uint64_t timer = 0;  ///< number of the one that counts
    std::optional<steady_time> due;
    std::int64_t fault_after = -1;
};
using compactor_self = caf::stateful_actor<compactor_state>;

void go_on(compactor_self* self) {
    auto& s = self->state;
    const auto now = self->clock().now();
    if (const auto order = s.policy->decide(now)) {
        const bool shrink = order->what == compactor_policy::order::kind::shrink;
        // Sent, not requested: the answer is only for the log, and a request would leave its time-out behind.
        if (shrink)
            self->send(s.scheduler, compact_atom::value, order->bytes);
        else
            self->send(s.scheduler, compact_atom::value);
    }
    const auto at = s.policy->wakeup();
    if (!at || s.due == at) return;
    s.due = at;
    self->delayed_send(self, std::max<caf::timespan>(*at - now, 1ms), timer_atom::value, ++s.timer);
}

caf::behavior compactor_behavior(compactor_self* self, caf::actor scheduler, std::chrono::seconds shrink_after) {
    self->set_exception_handler([](std::exception_ptr&) -> caf::error { return caf::sec::runtime_error; });
    self->state.policy = std::make_unique<compactor_policy>(shrink_after);
    self->state.scheduler = scheduler;
    self->send(scheduler, compactor_atom::value, caf::actor_cast<caf::actor>(self));
    return {
        [self](const kv_usage& u) {
            if (self->state.fault_after >= 0 && self->state.fault_after-- == 0)
                throw std::runtime_error("injected fault");
            self->state.policy->usage(u, self->clock().now());
            go_on(self);
        },
        [](const std::string& what) { log::info("kv_memory_returned now={}", what); },
        [self](const actor_fault& f) { self->state.fault_after = f.after; },
        [self](state_atom) { return "{\"mailbox\":" + std::to_string(self->mailbox().size()) + "}"; },
        [self](timer_atom, std::uint64_t number) {
            if (number != self->state.timer) return;
            self->state.due.reset();
            go_on(self);
        },
    };
}

}  // namespace

caf::actor spawn_compactor(caf::actor_system& system, caf::actor scheduler, std::chrono::seconds shrink_after) {
    return system.spawn(compactor_behavior, std::move(scheduler), shrink_after);
}

}  // namespace troupe::actors
