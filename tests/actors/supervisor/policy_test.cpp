#include "actors/supervisor/policy.hpp"

#include <csignal>

#include <gtest/gtest.h>

#include "actors/executor/faults.hpp"
#include "actors/supervisor/fault_book.hpp"
#include "actors/supervisor/health.hpp"
#include "core/limits.hpp"

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;

TEST(restart_policy, first_at_once_then_backs_off_then_opens_the_circuit) {
    restart_policy p;
    std::vector<std::int64_t> delays;
    for (int i = 0; i < 4; ++i) {
        const auto d = p.on_death({death_cause::crash, true, false}, 0.5);
        EXPECT_FALSE(d.circuit_open);
        delays.push_back(d.delay.count());
    }
    EXPECT_EQ(delays, (std::vector<std::int64_t>{0, 100, 200, 400}));
    for (int i = 0; i < 3; ++i) {
        const auto d = p.on_death({death_cause::crash, true, false}, 0.5);
        EXPECT_TRUE(d.circuit_open);
        EXPECT_EQ(d.delay, 60s) << "one try a minute";
    }
    const auto after_progress = p.on_death({death_cause::crash, true, true}, 0.5);
    EXPECT_FALSE(after_progress.circuit_open);
    EXPECT_EQ(after_progress.delay, 0ms);
}

TEST(restart_policy, spreads_by_jitter_within_a_quarter) {
    for (const auto& [jitter, ms] : {std::pair{0.0, 75}, {0.5, 100}, {0.999, 124}}) {
        restart_policy p;
        p.on_death({death_cause::abort, true, false}, jitter);
        EXPECT_EQ(p.on_death({death_cause::abort, true, false}, jitter).delay.count(), ms);
    }
}

TEST(restart_policy, survives_an_operator_who_kills_every_second) {
    restart_policy p;
    for (int i = 0; i < 100; ++i) {
        const auto d = p.on_death({death_cause::killed, true, i % 3 == 0}, 0.9);
        EXPECT_FALSE(d.circuit_open);
        EXPECT_EQ(d.delay, 0ms);
    }
    for (int i = 0; i < 100; ++i) EXPECT_EQ(p.on_death({death_cause::operator_restart, true, false}, 0).delay, 0ms);
    EXPECT_EQ(p.deaths_in_a_row(), 0);
    restart_policy loading;  // killed again and again before it is ready: that is no operator
    for (int i = 0; i < 4; ++i) loading.on_death({death_cause::killed, false, false}, 0);
    EXPECT_TRUE(loading.on_death({death_cause::killed, false, false}, 0).circuit_open);
}

TEST(death, is_classified) {
    EXPECT_EQ(classify({.exit = {.signal = SIGSEGV}}), death_cause::crash);
    EXPECT_EQ(classify({.exit = {.signal = SIGBUS}}), death_cause::crash);
    EXPECT_EQ(classify({.exit = {.signal = SIGABRT}}), death_cause::abort);
    EXPECT_EQ(classify({.exit = {.signal = SIGKILL}}), death_cause::killed);
    EXPECT_EQ(classify({.exit = {.signal = SIGKILL, .out_of_memory = true}}), death_cause::oom_killed);
    EXPECT_EQ(classify({.exit = {.signal = SIGKILL}, .stuck = true}), death_cause::hang);
    EXPECT_EQ(classify({.exit = {.signal = SIGKILL}, .operator_restart = true}), death_cause::operator_restart);
    EXPECT_EQ(classify({.exit = {.code = device_lost_exit}}), death_cause::device_lost);
    EXPECT_EQ(classify({.exit = {.code = 1}}), death_cause::exit);
    EXPECT_EQ(classify({.exit = {.code = 4}, .load_failed = true}), death_cause::load_failed);
    EXPECT_EQ(describe(death_cause::crash, {.signal = SIGSEGV}), "crash (signal 11)");
    EXPECT_EQ(describe(death_cause::exit, {.code = 3}), "exit (exit code 3)");
}

TEST(progress, deadline_follows_the_measured_speed) {
    EXPECT_EQ(progress_deadline(0), 2s);
    EXPECT_EQ(progress_deadline(1'000'000), 2s);
    EXPECT_EQ(progress_deadline(5'000'000'000), 40s);
}

TEST(progress, slow_is_not_stuck_and_idle_is_not_stuck) {
    stall_watch w;
    steady_time now{};
    w.reset(now);
    for (int i = 0; i < 600; ++i) EXPECT_EQ(w.observe(now += 1s, 7, false), 0s) << "ten idle minutes";
    for (std::uint64_t i = 8; i < 300; ++i) EXPECT_EQ(w.observe(now += 1s, i, true), 0s) << "a long prefill";
    EXPECT_EQ(w.observe(now += 1s, 299, true), 1s);
    EXPECT_EQ(w.observe(now += 1s, 299, true), 2s);
    EXPECT_EQ(w.observe(now += 1s, 300, true), 0s);
}

TEST(idle_watch, sleeps_only_after_a_pause) {
    const steady_time now{1h};
    idle_watch never(0s), w(30s);
    never.work(true, now);
    EXPECT_FALSE(never.due());
    w.work(true, now);
    EXPECT_EQ(w.due(), now + 30s);
    w.work(false, now + 10s);
    EXPECT_FALSE(w.due());
    w.work(true, now + 20s);
    EXPECT_EQ(w.due(), now + 50s);
}

TEST(health, says_what_is) {
    const auto status = [](health_facts f) { return describe(f).status; };
    EXPECT_EQ(status({.phase = executor_phase::loading}), "loading");
    EXPECT_EQ(status({.phase = executor_phase::up, .ever_ready = true}), "ok");
    EXPECT_EQ(status({.phase = executor_phase::up, .ever_ready = true, .answers = false}), "recovering");
    EXPECT_EQ(status({.phase = executor_phase::up, .ever_ready = true, .strained = "why"}), "degraded");
    for (const auto phase : {executor_phase::loading, executor_phase::ending, executor_phase::waiting})
        EXPECT_EQ(status({.phase = phase, .ever_ready = true}), "recovering");
    EXPECT_EQ(status({.phase = executor_phase::down, .ever_ready = true}), "down");
    EXPECT_EQ(status({.phase = executor_phase::stopped}), "down");
    const auto r = describe({.phase = executor_phase::waiting,
        .ever_ready = true,
        .epoch = 3,
        .restarts = 2,
        .last_fault = "crash (signal 11)"});
    EXPECT_EQ(r.epoch, 3u);
    EXPECT_EQ(r.restarts, 2u);
    ASSERT_EQ(r.reasons.size(), 1u);
    EXPECT_NE(r.reasons[0].find("crash (signal 11)"), std::string::npos);
}

TEST(fault_book, a_fault_for_watched_requests_is_not_the_one_for_any) {
    fault_book book;
    book.add({.kind = "crash", .times = 99, .only_watched = true}, 0);
    book.add({.kind = "crash", .times = 1}, 0);
    book.fired("crash");
    ASSERT_EQ(book.armed().size(), 1u) << "else it would fire in every executor to come";
    EXPECT_EQ(book.armed()[0].times, 99);
    book.fired("crash (watched)");
    EXPECT_EQ(book.armed()[0].times, 98);
}

TEST(fault_book, counts_firings_over_incarnations) {
    fault_book book;
    book.add({.kind = "crash", .times = 2}, 0);
    book.add({.kind = "nan", .times = 1, .only_watched = true}, 0);
    book.fired("hang");
    book.fired("crash");
    ASSERT_EQ(book.armed().size(), 2u);
    EXPECT_EQ(book.armed()[0].times, 1);
    book.fired("nan (watched)");
    ASSERT_EQ(book.armed().size(), 1u);
    book.fired("crash");
    EXPECT_TRUE(book.armed().empty());
}

TEST(fault_book, steps_count_from_arming_over_incarnations) {
    fault_book book;
    book.add({.kind = "crash", .after_steps = 10, .times = 2}, 100);
    book.executor_gone(104);  // killed by somebody else
    EXPECT_EQ(book.armed()[0].after_steps, 6);
    book.executor_gone(0);  // it never became ready
    EXPECT_EQ(book.armed()[0].after_steps, 6);
    book.fired("crash");
    book.executor_gone(6);
    EXPECT_EQ(book.armed()[0].after_steps, 6);  // the second firing waits as long as the first did here
    book.executor_gone(50);
    EXPECT_EQ(book.armed()[0].after_steps, 0);
}

}  // namespace
}  // namespace troupe::actors
