// CAF under GoogleTest: one thread, virtual time, one message at a time (after shared/caf's guide: caf/test/dsl.hpp
// clashes with GoogleTest).
#pragma once

#include <string>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <gtest/gtest.h>

#include "actors/messages.hpp"
#include "actors/system.hpp"

namespace troupe::test {

class actor_test : public ::testing::Test {
 public:
    actor_test() : config({.network = false, .deterministic = true}), system(config), self(system, true) {}
    ~actor_test() override {
        for (auto& a : owned_) caf::anon_send_exit(a, caf::exit_reason::kill);
        owned_.clear();
        scheduler().run();
        system.await_actors_before_shutdown(false);
    }

    caf::scheduler::test_coordinator& scheduler() {
        return dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
    }
    /// Ended with the test.
    caf::actor own(caf::actor a) {
        owned_.push_back(a);
        return a;
    }
    template <class... T> caf::actor spawn(T&&... args) {
        return own(caf::actor_cast<caf::actor>(system.spawn(std::forward<T>(args)...)));
    }
    /// Runs everything that is due now.
    void run() { scheduler().run(); }
    /// Lets time pass, running what becomes due on the way.
    void advance(caf::timespan t) {
        constexpr caf::timespan step = std::chrono::milliseconds(10);
        for (run(); t > caf::timespan{0}; t -= step) {
            scheduler().advance_time(std::min(t, step));
            run();
        }
    }
    /// The answer to a message; a failed test and T{} if it is an error or does not come without time passing.
    template <class T, class... Args> T ask(const caf::actor& a, Args&&... args) {
        auto handle = self->request(a, caf::infinite, std::forward<Args>(args)...);
        run();
        T value{};
        handle.receive([&](T& v) { value = std::move(v); },
            [&](const caf::error& e) { ADD_FAILURE() << "error: " << from_error(e); });
        return value;
    }
    /// The error a message is answered with.
    template <class T, class... Args> error ask_error(const caf::actor& a, Args&&... args) {
        auto handle = self->request(a, caf::infinite, std::forward<Args>(args)...);
        run();
        error got;
        handle.receive([&](T&) { ADD_FAILURE() << "an answer where an error was expected"; },
            [&](const caf::error& e) { got = actors::from_caf_error(e); });
        return got;
    }

    actors::system_config config;
    caf::actor_system system;
    caf::scoped_actor self;

 private:
    static std::string from_error(const caf::error& e) { return actors::from_caf_error(e).message; }
    std::vector<caf::actor> owned_;
};

}  // namespace troupe::test
