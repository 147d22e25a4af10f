// Where executors live, as the supervisor sees it: start one, end one, be told what became of it. Tests have a fake.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <caf/actor.hpp>
#include <caf/allowed_unsafe_message_type.hpp>

#include "actors/executor/progress_page.hpp"
#include "actors/supervisor/child_exit.hpp"
#include "core/error.hpp"

namespace troupe::actors {

enum class child_event_kind : std::uint8_t {
    door,    ///< loaded; `door` answers hello
    failed,  ///< it said why it cannot load (`err`); `gone` follows
    fired,   ///< an armed fault is about to fire (`fault` is its kind)
    gone,    ///< reaped; the last event of its epoch
};
struct child_event {
    std::uint64_t epoch = 0;
    child_event_kind kind{};
    caf::actor door;
    error err;
    std::string fault;
    child_exit exit;
    std::int32_t pid = 0;
};

class child_host {
 public:
    virtual ~child_host() = default;

    /// Events go there; called on any thread. Set once, before the first launch.
    virtual void set_sink(std::function<void(child_event)> sink) = 0;
    /// Starts an executor; at most one at a time. Everything that goes wrong comes as `failed` and `gone`.
    virtual void launch(std::uint64_t epoch, std::string cookie) = 0;
    /// Asks it to exit / ends it. No-ops if that epoch is gone.
    virtual void stop(std::uint64_t epoch) = 0;
    virtual void kill(std::uint64_t epoch) = 0;
    /// Of the latest launch; stays readable after `gone` until the next launch. Never null after the first launch.
    virtual const progress_page* page() const = 0;
    virtual bool can_restart() const = 0;
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::child_event)
