// The supervisor in virtual time, over a fake host: exact sequences, no process, no sleep.
#include "actors/supervisor/supervisor.hpp"

#include <csignal>

#include <boost/json.hpp>
#include <caf/stateful_actor.hpp>
#include <gtest/gtest.h>

#include "core/limits.hpp"
#include "tests/support/actor_fixture.hpp"

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;

/// What the test's hand does to executors, and what the supervisor asked of them.
struct fake_world {
    std::function<void(child_event)> sink;
    progress_page page;
    std::vector<std::string> calls;  ///< "launch 1", "kill 1", ...
    std::string cookie;
    bool restartable = true;
};

class fake_host final : public child_host {
 public:
    explicit fake_host(std::shared_ptr<fake_world> world) : world_(std::move(world)) {}
    void set_sink(std::function<void(child_event)> sink) override { world_->sink = std::move(sink); }
    void launch(std::uint64_t epoch, std::string cookie) override {
        world_->calls.push_back("launch " + std::to_string(epoch));
        world_->cookie = std::move(cookie);
        for (auto* counter : {&world_->page.progress, &world_->page.plan_started, &world_->page.plans_done,
                 &world_->page.steps_done, &world_->page.tick_ns, &world_->page.kv_bytes})
            *counter = 0;
        world_->page.busy = world_->page.load_permille = 0;
    }
    void stop(std::uint64_t epoch) override { world_->calls.push_back("stop " + std::to_string(epoch)); }
    void kill(std::uint64_t epoch) override { world_->calls.push_back("kill " + std::to_string(epoch)); }
    const progress_page* page() const override { return &world_->page; }
    bool can_restart() const override { return world_->restartable; }

 private:
    std::shared_ptr<fake_world> world_;
};

class supervisor_test : public test::actor_test {
 public:
    void start(bool fault_injection = true, std::chrono::seconds unload_after = 0s) {
        scheduler_actor = spawn([this]() -> caf::behavior {
            return {[this](activity_atom, const caf::actor& who) {
                        if (!idle) caf::anon_send(who, work_state{false});
                    },
                [this](const step_bounds& b) {
                    heard.push_back("bounds " + std::to_string(b.run_ahead) + " " + std::to_string(b.max_rows));
                },
                [this](unload_atom) {
                    heard.push_back("end all");
                    return true;
                },
                [this](const executor_up& up) { heard.push_back("up " + std::to_string(up.info.epoch)); },
                [this](const executor_down& d) {
                    heard.push_back(
                        "down " + std::to_string(d.epoch) + " " + d.reason + " plan " + std::to_string(d.plan_started));
                },
                [this](const fault_spec& f) { heard.push_back("watch " + f.request_contains); }};
        });
        supervisor = own(spawn_supervisor(system,
            {.fault_injection = fault_injection,
                .unload_after = unload_after,
                .memory_of = [this](std::int64_t pid) { return pid == 101 ? executor_bytes : front_bytes; }},
            std::make_unique<fake_host>(world), scheduler_actor,
            {.first_start =
                    [this](result<executor_info> i) {
                        first.push_back(i ? "ready" : std::string(info(i.error().code).name));
                    },
                .health_changed = [this](const health_report& r) { levels.push_back(r.status); },
                .memory_trend =
                    [this](const std::string& process, double, bool warning) {
                        if (warning) leaks.push_back(process);
                    }}));
        run();
    }
    void emit(child_event e) {
        world->sink(std::move(e));
        run();
    }
    /// An executor that answers as long as `answers`.
    void ready(std::uint64_t epoch) {
        executor = spawn([this](caf::stateful_actor<std::vector<caf::response_promise>>* a) -> caf::behavior {
            return {[](attach_atom, const caf::actor&) { return executor_info{}; },
                [this, a](status_atom) -> caf::result<executor_status> {
                    if (answers) return executor_status{};
                    a->state.push_back(a->make_response_promise());
                    return a->state.back();
                },
                [this](const executor_fault& f) {
                    armed.push_back(f.kind + " " + std::to_string(f.times));
                    return true;
                }};
        });
        auto door = spawn([this, epoch](caf::event_based_actor*) -> caf::behavior {
            return {[this, epoch](hello_atom, const std::string& cookie) {
                EXPECT_EQ(cookie, world->cookie);
                return caf::make_message(
                    executor, executor_info{.epoch = epoch, .pid = 100 + static_cast<std::int32_t>(epoch)});
            }};
        });
        emit({.epoch = epoch, .kind = child_event_kind::door, .door = door});
    }
    void gone(std::uint64_t epoch, child_exit e) { emit({.epoch = epoch, .kind = child_event_kind::gone, .exit = e}); }
    /// Lets much time pass at once: timers fire once.
    void leap(caf::timespan t) {
        scheduler().advance_time(t);
        run();
    }
    std::string last_call() const { return world->calls.empty() ? "" : world->calls.back(); }
    health_report health() { return ask<health_report>(supervisor, health_atom::value); }

    std::shared_ptr<fake_world> world = std::make_shared<fake_world>();
    caf::actor scheduler_actor, supervisor, executor;
    std::vector<std::string> heard, first, levels, armed, leaks;
    std::uint64_t front_bytes = 100u << 20, executor_bytes = 100u << 20;
    bool idle = true;  ///< what the scheduler answers who asks
    bool answers = true;
};

TEST_F(supervisor_test, brings_an_executor_up_and_tells_in_order) {
    start();
    EXPECT_EQ(world->calls, std::vector<std::string>{"launch 1"});
    EXPECT_EQ(world->cookie.size(), 32u);
    world->page.load_permille = 400;
    const auto loading = health();
    EXPECT_EQ(loading.status, "loading");
    EXPECT_DOUBLE_EQ(loading.load_progress, 0.4);
    ready(1);
    EXPECT_EQ(heard, std::vector<std::string>{"up 1"});
    EXPECT_EQ(first, std::vector<std::string>{"ready"});
    EXPECT_EQ(health().status, "ok");
    EXPECT_EQ(levels, (std::vector<std::string>{"loading", "ok"}));
}

TEST_F(supervisor_test, restarts_a_crashed_one_at_once_and_names_the_plan_that_had_started) {
    start();
    ready(1);
    world->page.plan_started = 17;
    world->page.steps_done = 16;
    const auto cookie = world->cookie;
    gone(1, {.signal = SIGSEGV});
    EXPECT_EQ(heard.back(), "down 1 crash plan 17");
    EXPECT_EQ(last_call(), "launch 2");
    EXPECT_NE(world->cookie, cookie);
    EXPECT_EQ(health().status, "recovering");
    advance(1200ms);
    ready(2);
    EXPECT_EQ(heard.back(), "up 2");
    const auto h = health();
    EXPECT_EQ(h.status, "ok");
    EXPECT_EQ(h.restarts, 1u);
    EXPECT_EQ(h.last_fault, "crash (signal 11)");
    const auto counters = ask<supervisor_counters>(supervisor, counters_atom::value);
    ASSERT_EQ(counters.recovery_seconds.size(), 1u);
    EXPECT_DOUBLE_EQ(counters.recovery_seconds[0], 1.2);
    EXPECT_EQ(counters.restarts.at("crash"), 1u);
    EXPECT_EQ(first.size(), 1u) << "first_start is said once";
}

TEST_F(supervisor_test, tells_when_each_stage_of_a_recovery_came) {
    start();
    ready(1);
    const auto recoveries = [this] {
        const auto state = boost::json::parse(ask<std::string>(supervisor, state_atom::value));
        return state.at("recoveries").as_array();
    };
    EXPECT_TRUE(recoveries().empty()) << "the first start recovers nothing";
    advance(1s);
    world->page.fired_ns = 7'000;
    gone(1, {.signal = SIGSEGV});
    advance(300ms);
    world->page.loading_ns = 20'000;
    world->page.loaded_ns = 250'000;
    ready(2);
    world->page.first_row_ns = 400'000;
    const auto first = recoveries();
    ASSERT_EQ(first.size(), 1u);
    const auto& r = first[0].as_object();
    EXPECT_EQ(r.at("epoch").as_int64(), 2);
    EXPECT_EQ(r.at("reason").as_string(), "crash (signal 11)");
    EXPECT_EQ(r.at("fired_us").as_int64(), 7);
    EXPECT_EQ(r.at("launched_us").as_int64(), r.at("noticed_us").as_int64()) << "at once";
    EXPECT_EQ(r.at("loading_us").as_int64(), 20);
    EXPECT_EQ(r.at("loaded_us").as_int64(), 250);
    EXPECT_EQ(r.at("ready_us").as_int64() - r.at("noticed_us").as_int64(), 300'000);
    EXPECT_EQ(r.at("first_row_us").as_int64(), 400);
    gone(2, {.signal = SIGKILL});
    world->page.first_row_ns = 0;  // the successor's page
    const auto second = recoveries();
    ASSERT_EQ(second.size(), 2u);
    EXPECT_EQ(second[0].at("first_row_us").as_int64(), 400) << "kept when its executor is gone";
    EXPECT_EQ(second[1].at("ready_us").as_int64(), 0);
}

TEST_F(supervisor_test, backs_off_opens_the_circuit_and_tries_once_a_minute) {
    start();
    for (std::uint64_t epoch = 1; epoch <= 4; ++epoch) {
        ready(epoch);
        gone(epoch, {.signal = SIGABRT});
        if (epoch == 1) continue;
        EXPECT_EQ(last_call(), "launch " + std::to_string(epoch)) << "not at once";
        advance(500ms);
        EXPECT_EQ(last_call(), "launch " + std::to_string(epoch + 1));
    }
    ready(5);
    gone(5, {.signal = SIGABRT});
    EXPECT_EQ(health().status, "down");
    EXPECT_NE(health().reasons.at(0).find("5 times"), std::string::npos);
    advance(59s);
    EXPECT_EQ(last_call(), "launch 5");
    advance(1s);
    EXPECT_EQ(last_call(), "launch 6");
    ready(6);
    EXPECT_EQ(health().status, "ok");
    world->page.steps_done = 1;
    gone(6, {.signal = SIGABRT});
    EXPECT_EQ(last_call(), "launch 7") << "a completed step resets it";
}

TEST_F(supervisor_test, kills_what_makes_no_progress_and_waits_until_it_is_gone) {
    start();
    ready(1);
    advance(10min);
    EXPECT_EQ(world->calls.size(), 1u) << "idle is not stuck";
    world->page.busy = 1;
    for (int i = 0; i < 600; ++i) {
        ++world->page.progress;
        advance(500ms);
    }
    EXPECT_EQ(world->calls.size(), 1u) << "a step of five minutes that moves is slow, not stuck";
    advance(1900ms);
    EXPECT_EQ(world->calls.size(), 1u);
    advance(700ms);
    EXPECT_EQ(last_call(), "kill 1");
    EXPECT_EQ(health().status, "recovering");
    advance(5s);
    EXPECT_EQ(last_call(), "kill 1") << "no successor before it is gone";
    EXPECT_EQ(heard, std::vector<std::string>{"up 1"});
    gone(1, {.signal = SIGKILL});
    EXPECT_EQ(heard.back(), "down 1 hang plan 0");
    EXPECT_EQ(last_call(), "launch 2");
}

TEST_F(supervisor_test, gives_a_slow_machine_its_measured_time) {
    start();
    ready(1);
    world->page.busy = 1;
    world->page.tick_ns = 1'000'000'000;
    advance(7900ms);
    EXPECT_EQ(world->calls.size(), 1u);
    advance(700ms);
    EXPECT_EQ(last_call(), "kill 1");
}

TEST_F(supervisor_test, says_within_a_second_that_a_frozen_process_does_not_answer_and_replaces_it) {
    start();
    ready(1);
    answers = false;
    auto handle = self->request(supervisor, caf::infinite, health_atom::value);
    run();
    advance(limits::health_probe_deadline);
    std::string status;
    handle.receive([&](const health_report& r) { status = r.status; }, [](const caf::error&) {});
    EXPECT_EQ(status, "recovering");
    EXPECT_EQ(levels.back(), "recovering");
    advance(6s);
    EXPECT_EQ(last_call(), "kill 1");
    gone(1, {.signal = SIGKILL});
    answers = true;
    ready(2);
    EXPECT_EQ(health().status, "ok");
}

TEST_F(supervisor_test, answers_a_waiting_probe_when_the_process_dies) {
    start();
    ready(1);
    answers = false;
    auto handle = self->request(supervisor, caf::infinite, health_atom::value);
    run();
    gone(1, {.signal = SIGSEGV});
    std::string status;
    handle.receive([&](const health_report& r) { status = r.status; }, [](const caf::error&) {});
    EXPECT_EQ(status, "recovering");
}

TEST_F(supervisor_test, ends_the_start_when_the_model_cannot_be_served) {
    start();
    emit({.epoch = 1, .kind = child_event_kind::failed, .err = fail(errc::model_malformed, "no tensors")});
    gone(1, {.code = 4});
    EXPECT_EQ(first, std::vector<std::string>{"model_malformed"});
    EXPECT_EQ(health().status, "down");
    EXPECT_TRUE(heard.empty());
    advance(5min);
    EXPECT_EQ(world->calls.back(), "kill 1") << "trying again cannot cure it";
}

TEST_F(supervisor_test, ends_the_start_when_it_never_becomes_ready) {
    start();
    for (std::uint64_t epoch = 1; epoch <= 5; ++epoch) {
        gone(epoch, {.signal = SIGSEGV});
        if (epoch < 5) advance(1s);
    }
    EXPECT_EQ(first, std::vector<std::string>{"not_ready"});
    EXPECT_EQ(health().status, "down");
}

TEST_F(supervisor_test, rearms_faults_in_the_next_incarnation_as_often_as_is_left) {
    start();
    ready(1);
    EXPECT_TRUE(ask<bool>(supervisor, fault_spec{.kind = "crash", .times = 2, .request_contains = "poison"}));
    EXPECT_EQ(armed, std::vector<std::string>{"crash 2"});
    EXPECT_EQ(heard.back(), "watch poison");
    emit({.epoch = 1, .kind = child_event_kind::fired, .fault = "crash (watched)"});
    gone(1, {.signal = SIGSEGV});
    ready(2);
    EXPECT_EQ(armed.back(), "crash 1");
    emit({.epoch = 2, .kind = child_event_kind::fired, .fault = "crash (watched)"});
    gone(2, {.signal = SIGSEGV});
    advance(1s);
    ready(3);
    EXPECT_EQ(armed.size(), 2u);
}

TEST_F(supervisor_test, refuses_faults_it_must_not_arm) {
    world->restartable = false;
    start();
    ready(1);
    const auto refused = [&](fault_spec f) { return info(ask_error<bool>(supervisor, std::move(f)).code).name; };
    EXPECT_EQ(refused({.kind = "earthquake"}), "invalid_request");
    EXPECT_EQ(refused({.target = "moon", .kind = "nan"}), "unsupported_parameter");
    EXPECT_EQ(refused({.kind = "crash"}), "unsupported_parameter");
    EXPECT_TRUE(ask<bool>(supervisor, fault_spec{.kind = "nan"}));
    EXPECT_EQ(info(ask_error<bool>(supervisor, restart_atom::value).code).name, "unsupported_parameter");
}

TEST_F(supervisor_test, needs_permission_for_faults) {
    start(false);
    ready(1);
    EXPECT_EQ(ask_error<bool>(supervisor, fault_spec{.kind = "nan"}).code, errc::forbidden);
    EXPECT_TRUE(armed.empty());
}

TEST_F(supervisor_test, restarts_when_asked_and_answers_when_the_successor_is_ready) {
    start();
    ready(1);
    auto handle = self->request(supervisor, caf::infinite, restart_atom::value);
    run();
    EXPECT_EQ(last_call(), "kill 1");
    gone(1, {.signal = SIGKILL});
    EXPECT_EQ(heard.back(), "down 1 operator plan 0");
    ready(2);
    bool done = false;
    handle.receive([&](bool ok) { done = ok; }, [](const caf::error&) {});
    EXPECT_TRUE(done);
}

TEST_F(supervisor_test, a_lost_device_shows_as_degraded_until_a_quiet_minute_has_passed) {
    start();
    ready(1);
    gone(1, {.code = 70});
    EXPECT_EQ(heard.back(), "down 1 device_lost plan 0");
    ready(2);
    EXPECT_EQ(health().status, "degraded");
    advance(62s);
    EXPECT_EQ(health().status, "ok");
    EXPECT_EQ(levels.back(), "ok");
}

TEST_F(supervisor_test, goes_down_the_ladder_and_up_again) {
    start();
    ready(1);
    world->page.steps_done = 1;
    gone(1, {.code = 70});
    ready(2);
    EXPECT_EQ(health().level, "full");
    world->page.steps_done = 1;
    gone(2, {.code = 70});
    EXPECT_EQ(heard.back(), "bounds 1 512") << "known before the next one is up";
    ready(3);
    const auto h = health();
    EXPECT_EQ(h.status, "degraded");
    EXPECT_EQ(h.level, "no_run_ahead");
    EXPECT_NE(h.reasons.at(0).find("device"), std::string::npos);
    world->page.steps_done = 1;
    for (std::uint64_t epoch = 3; epoch <= 4; ++epoch) {
        gone(epoch, {.code = 70});
        ready(epoch + 1);
        world->page.steps_done = 1;
    }
    EXPECT_EQ(health().level, "small_batch");
    advance(62s);
    EXPECT_EQ(health().level, "no_run_ahead");
    EXPECT_EQ(heard.back(), "bounds 1 512");
    advance(61s);
    EXPECT_EQ(health().level, "full");
    EXPECT_EQ(health().status, "ok");
    EXPECT_EQ(heard.back(), "bounds 4 512");
}

TEST_F(supervisor_test, sleeps_after_a_pause_and_wakes_for_a_request) {
    start(true, 30s);
    ready(1);
    caf::anon_send(supervisor, work_state{false});
    advance(60s);
    EXPECT_EQ(health().status, "ok") << "there is work";
    caf::anon_send(supervisor, work_state{true});
    advance(29s);
    EXPECT_EQ(last_call(), "launch 1");
    advance(1s);
    EXPECT_EQ(heard.back(), "down 1 unloaded plan 0");
    EXPECT_EQ(last_call(), "stop 1");
    EXPECT_EQ(health().status, "sleeping");
    gone(1, {.code = 0});
    EXPECT_EQ(health().status, "sleeping");
    EXPECT_EQ(health().restarts, 0u);
    EXPECT_EQ(health().last_fault, "");
    const auto quiet = world->calls;
    leap(1h);
    EXPECT_EQ(world->calls, quiet) << "asking for its health wakes nobody";
    caf::anon_send(supervisor, work_state{false});
    run();
    EXPECT_EQ(last_call(), "launch 2");
    EXPECT_EQ(health().status, "loading");
    ready(2);
    EXPECT_EQ(health().status, "ok");
    EXPECT_EQ(heard.back(), "up 2");
    caf::anon_send(supervisor, work_state{true});
    advance(31s);
    EXPECT_EQ(last_call(), "stop 2") << "and sleeps again";
}

TEST_F(supervisor_test, a_request_that_comes_while_it_falls_asleep_wakes_it) {
    start(true, 30s);
    ready(1);
    advance(31s);
    ASSERT_EQ(last_call(), "stop 1");
    caf::anon_send(supervisor, work_state{false});
    advance(limits::executor_exit_deadline);
    EXPECT_EQ(last_call(), "kill 1") << "one that does not leave is ended";
    gone(1, {.signal = SIGKILL});
    EXPECT_EQ(last_call(), "launch 2");
    ready(2);
    EXPECT_EQ(health().restarts, 0u) << "that was no fault";
}

TEST_F(supervisor_test, one_that_cannot_wake_up_is_a_fault_like_any_other) {
    start(true, 30s);
    ready(1);
    advance(31s);
    gone(1, {.code = 0});
    caf::anon_send(supervisor, work_state{false});
    run();
    ASSERT_EQ(last_call(), "launch 2");
    leap(1s);
    for (int minute = 0; minute < 3; ++minute) leap(1min);
    EXPECT_EQ(last_call(), "kill 2") << "loading stands still";
    gone(2, {.signal = SIGKILL});
    EXPECT_EQ(health().status, "recovering");
    EXPECT_EQ(health().restarts, 1u);
    EXPECT_EQ(last_call(), "launch 3");
}

TEST_F(supervisor_test, what_was_never_loaded_is_not_unloaded) {
    start();
    EXPECT_EQ(ask_error<bool>(supervisor, unload_atom::value).code, errc::not_ready);
    ready(1);
    EXPECT_EQ(health().status, "ok");
}

TEST_F(supervisor_test, work_that_came_while_it_was_unloaded_wakes_it) {
    start();
    ready(1);
    caf::anon_send(supervisor, work_state{false});
    run();
    auto handle = self->request(supervisor, caf::infinite, unload_atom::value);
    run();
    idle = false;  // a request came before the scheduler heard that the executor is gone: it never was idle
    gone(1, {.code = 0});
    handle.receive([](bool) {}, [](const caf::error&) { ADD_FAILURE(); });
    EXPECT_EQ(last_call(), "launch 2");
}

TEST_F(supervisor_test, a_restart_asked_for_while_it_falls_asleep_is_done) {
    start(true, 30s);
    ready(1);
    advance(31s);
    ASSERT_EQ(last_call(), "stop 1");
    auto restarted = self->request(supervisor, caf::infinite, restart_atom::value);
    run();
    gone(1, {.code = 0});
    ASSERT_EQ(last_call(), "launch 2");
    ready(2);
    restarted.receive([](bool) {}, [](const caf::error&) { ADD_FAILURE(); });
}

TEST_F(supervisor_test, unloads_when_asked_and_ends_what_runs_first) {
    start();
    ready(1);
    auto handle = self->request(supervisor, caf::infinite, unload_atom::value);
    run();
    EXPECT_EQ(heard, (std::vector<std::string>{"up 1", "end all", "down 1 unloaded plan 0"}));
    gone(1, {.code = 0});
    bool done = false;
    handle.receive([&](bool ok) { done = ok; }, [](const caf::error&) {});
    EXPECT_TRUE(done);
    EXPECT_EQ(health().status, "sleeping");
    EXPECT_TRUE(ask<bool>(supervisor, unload_atom::value)) << "it sleeps already";
    EXPECT_TRUE(ask<bool>(supervisor, fault_spec{.kind = "crash"})) << "armed in the one that wakes";
    auto restarted = self->request(supervisor, caf::infinite, restart_atom::value);
    run();
    ready(2);
    restarted.receive([](bool) {}, [](const caf::error&) { ADD_FAILURE(); });
    EXPECT_EQ(armed, std::vector<std::string>{"crash 1"});
    EXPECT_EQ(ask_error<bool>(supervisor, fault_spec{.kind = "earthquake"}).code, errc::invalid_request);
}

TEST_F(supervisor_test, warns_of_a_process_that_grows_but_not_of_budgeted_memory) {
    start();
    ready(1);
    for (int minute = 0; minute < 4 * 60; ++minute) {
        world->page.kv_bytes += 2u << 20;
        executor_bytes += 2u << 20;
        leap(1min);
    }
    EXPECT_TRUE(leaks.empty());
    for (int minute = 0; minute < 8 * 60; ++minute) {
        executor_bytes += 1u << 20;
        leap(1min);
    }
    EXPECT_EQ(leaks, std::vector<std::string>{"executor"});
    EXPECT_NE(ask<std::string>(supervisor, state_atom::value).find("\"warning\""), std::string::npos);
}

TEST_F(supervisor_test, drains_with_a_deadline) {
    start();
    ready(1);
    auto handle = self->request(supervisor, caf::infinite, drain_atom::value);
    run();
    EXPECT_EQ(last_call(), "stop 1");
    advance(limits::executor_exit_deadline);
    EXPECT_EQ(last_call(), "kill 1");
    gone(1, {.signal = SIGKILL});
    bool done = false;
    handle.receive([&](bool ok) { done = ok; }, [](const caf::error&) {});
    EXPECT_TRUE(done);
    EXPECT_EQ(heard.back(), "down 1 killed plan 0");
}

TEST_F(supervisor_test, ignores_what_an_older_incarnation_still_says) {
    start();
    ready(1);
    gone(1, {.signal = SIGSEGV});
    const auto calls = world->calls;
    gone(1, {.signal = SIGSEGV});
    emit({.epoch = 1, .kind = child_event_kind::failed, .err = fail(errc::internal, "late")});
    EXPECT_EQ(world->calls, calls);
}

TEST_F(supervisor_test, writes_its_state_with_the_newest_hundred_events) {
    start();
    for (std::uint64_t epoch = 1; epoch <= 60; ++epoch) {
        ready(epoch);
        world->page.steps_done = 1;
        gone(epoch, {.signal = SIGSEGV});
    }
    const auto json = ask<std::string>(supervisor, state_atom::value);
    EXPECT_NE(json.find("\"status\":\"recovering\""), std::string::npos);
    EXPECT_NE(json.find("\"restarts\":60"), std::string::npos);
    std::size_t events = 0;
    for (std::size_t at = 0; (at = json.find("\"event\":", at)) != std::string::npos; ++at) ++events;
    EXPECT_EQ(events, limits::supervisor_events_kept);
}

}  // namespace
}  // namespace troupe::actors
