#include "actors/compactor/compactor_actor.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/compactor/policy.hpp"
#include "actors/compactor/pressure.hpp"
#include "actors/messages.hpp"
#include "actors/store/store_messages.hpp"
#include "core/log.hpp"

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;

constexpr auto look_every = 1s, look_idle_every = 5s;

class compactor_core {
 public:
    compactor_core(caf::event_based_actor* self, caf::actor scheduler, std::chrono::seconds shrink_after,
        std::filesystem::path memory_root)
        : self_(self), scheduler_(std::move(scheduler)), policy_(shrink_after), root_(std::move(memory_root)) {
        self_->send(scheduler_, compactor_atom::value, caf::actor_cast<caf::actor>(self_));
    }

    void usage(const kv_usage& u) {
        if (fault_after_ >= 0 && fault_after_-- == 0) throw std::runtime_error("injected fault");
        last_ = u;
        policy_.usage(u, now());
        go_on();
    }
    void timer(std::uint64_t number) {
        if (number != timer_) return;
        due_.reset();
        go_on();
    }
    void fail_after(std::int64_t messages) { fault_after_ = messages; }

 private:
    steady_time now() const { return self_->clock().now(); }

    /// Work may be refused, or there is memory that could go back.
    bool looks() const {
        return !root_.empty() && (!last_.idle || last_.segments_committed > 0 || judge_.level() != pressure::none);
    }

    void look() {
        if (!looks() || now() < next_look_) return;
        next_look_ = now() + (last_.idle ? look_idle_every : look_every);
        const auto before = judge_.level();
        const auto reading = read_memory(root_);
        const auto level = judge_.judge(reading);
        // Cached blocks are the first to go, and nothing is written to the disk while memory is short.
        if (level != pressure::none && last_.segments_committed > 0)
            self_->send(scheduler_, memory_order{.evict_before = now(), .spare = 0, .at_once = true});
        if (level == before) return;
        log::warn("memory_pressure level={} available_mib={} some={} full={}", static_cast<int>(level),
            reading.available >> 20, reading.some_stalled, reading.full_stalled);
        self_->send(scheduler_, memory_pressure{level == pressure::short_, reading.available});
    }

    void go_on() {
        look();
        if (const auto order = policy_.decide(now())) self_->send(scheduler_, *order);
        auto at = policy_.wakeup();
        if (looks()) at = std::min(at.value_or(next_look_), next_look_);
        if (!at || due_ == at) return;
        due_ = at;
        self_->delayed_send(self_, std::max<caf::timespan>(*at - now(), 1ms), timer_atom::value, ++timer_);
    }

    caf::event_based_actor* self_;
    caf::actor scheduler_;
    compactor_policy policy_;
    pressure_judge judge_;
    std::filesystem::path root_;
    kv_usage last_{.idle = true};
    steady_time next_look_{};
    std::uint64_t timer_ = 0;  ///< number of the one that counts
    std::optional<steady_time> due_;
    std::int64_t fault_after_ = -1;
};

struct compactor_state {
    static inline const char* name = "compactor";
    std::unique_ptr<compactor_core> core;
};

caf::behavior compactor_behavior(caf::stateful_actor<compactor_state>* self, caf::actor scheduler,
    std::chrono::seconds shrink_after, std::filesystem::path memory_root) {
    self->set_exception_handler([](std::exception_ptr&) -> caf::error { return caf::sec::runtime_error; });
    self->state.core =
        std::make_unique<compactor_core>(self, std::move(scheduler), shrink_after, std::move(memory_root));
    auto* core = self->state.core.get();
    return {
        [core](const kv_usage& u) { core->usage(u); },
        [core](timer_atom, std::uint64_t number) { core->timer(number); },
        [core](const actor_fault& f) { core->fail_after(f.after); },
        [self](state_atom) { return "{\"mailbox\":" + std::to_string(self->mailbox().size()) + "}"; },
    };
}

}  // namespace

caf::actor spawn_compactor(caf::actor_system& system, caf::actor scheduler, std::chrono::seconds shrink_after,
    std::filesystem::path memory_root) {
    return system.spawn(compactor_behavior, std::move(scheduler), shrink_after, std::move(memory_root));
}

}  // namespace troupe::actors
