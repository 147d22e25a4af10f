#include "actors/supervisor/ladder.hpp"

#include <gtest/gtest.h>

#include "actors/supervisor/health.hpp"

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;

constexpr steady_time start{1h};

TEST(ladder, what_a_death_says) {
    EXPECT_EQ(strain_of(death_cause::device_lost, false), strain::device);
    EXPECT_EQ(strain_of(death_cause::oom_killed, false), strain::memory);
    EXPECT_EQ(strain_of(death_cause::load_failed, true), strain::memory);
    EXPECT_EQ(strain_of(death_cause::hang, false), strain::progress);
    for (const auto innocent : {death_cause::crash, death_cause::abort, death_cause::exit, death_cause::killed,
             death_cause::load_failed, death_cause::operator_restart})
        EXPECT_EQ(strain_of(innocent, false), strain::none) << name(innocent);
}

TEST(ladder, one_lost_device_is_told_and_forgotten_after_a_quiet_minute) {
    degradation_ladder l;
    EXPECT_EQ(l.reason(), "");
    EXPECT_FALSE(l.on_death(strain::device, start));
    EXPECT_EQ(l.level(), rung::full);
    EXPECT_NE(l.reason(), "");
    EXPECT_FALSE(l.on_time(start + 59s));
    EXPECT_TRUE(l.on_time(start + 60s));
    EXPECT_EQ(l.reason(), "");
    EXPECT_FALSE(l.on_time(start + 61s));
}

TEST(ladder, goes_down_by_two_of_a_kind_and_up_by_quiet) {
    degradation_ladder l;
    EXPECT_FALSE(l.on_death(strain::progress, start));
    EXPECT_FALSE(l.on_death(strain::device, start + 1s)) << "two kinds are not twice the same";
    EXPECT_TRUE(l.on_death(strain::progress, start + 2s));
    EXPECT_EQ(l.level(), rung::no_run_ahead);
    EXPECT_TRUE(l.on_death(strain::device, start + 3s));
    EXPECT_EQ(l.level(), rung::small_batch);
    EXPECT_NE(l.reason().find("device"), std::string::npos);
    for (int i = 0; i < 9; ++i) EXPECT_FALSE(l.on_death(strain::progress, start + 4s)) << "there is nothing below";
    EXPECT_FALSE(l.on_time(start + 63s));
    EXPECT_TRUE(l.on_time(start + 64s));
    EXPECT_EQ(l.level(), rung::no_run_ahead);
    EXPECT_FALSE(l.on_time(start + 65s)) << "a rung a quiet period";
    EXPECT_TRUE(l.on_time(start + 124s));
    EXPECT_EQ(l.level(), rung::full);
    EXPECT_EQ(l.reason(), "");
}

TEST(ladder, deaths_far_apart_are_no_pattern) {
    degradation_ladder l;
    for (int i = 0; i < 20; ++i) EXPECT_FALSE(l.on_death(strain::progress, start + i * 61s));
    EXPECT_EQ(l.level(), rung::full);
    EXPECT_FALSE(l.on_death(strain::none, start));
}

TEST(ladder, want_of_memory_leads_at_once_to_what_needs_less) {
    degradation_ladder l;
    EXPECT_FALSE(l.on_death(strain::memory, start));
    EXPECT_TRUE(l.on_death(strain::memory, start + 1s));
    EXPECT_EQ(l.level(), rung::small_batch);
}

TEST(ladder, who_relapses_waits_longer) {
    degradation_ladder l;
    steady_time now = start;
    std::chrono::seconds quiet = 60s;
    for (int relapse = 0; relapse < 6; ++relapse) {
        l.on_death(strain::progress, now);
        EXPECT_TRUE(l.on_death(strain::progress, now)) << relapse;
        EXPECT_FALSE(l.on_time(now + quiet - 1s)) << relapse;
        EXPECT_TRUE(l.on_time(now += quiet)) << relapse;
        EXPECT_EQ(l.level(), rung::full);
        quiet = std::min<std::chrono::seconds>(2 * quiet, longest_quiet_period);
        now += 1s;
    }
    l.on_time(now + 2 * quiet);  // it held: the next fall is judged as the first
    now += 2 * quiet;
    l.on_death(strain::progress, now);
    EXPECT_TRUE(l.on_death(strain::progress, now));
    EXPECT_TRUE(l.on_time(now + 60s));
}

TEST(ladder, asks_for_less_on_every_rung) {
    EXPECT_EQ(bounds_of(rung::full), step_bounds{});
    EXPECT_EQ(bounds_of(rung::no_run_ahead).run_ahead, 1);
    EXPECT_EQ(bounds_of(rung::no_run_ahead).max_rows, step_bounds{}.max_rows);
    const auto small = bounds_of(rung::small_batch);
    EXPECT_EQ(small.run_ahead, 1);
    EXPECT_LT(small.max_rows, limits::max_step_rows);
    EXPECT_LT(small.max_seqs, limits::max_step_seqs);
    EXPECT_EQ(name(rung::small_batch), "small_batch");
}

TEST(health, sleep_is_healthy_and_says_how_it_ends) {
    const auto of = [](executor_phase p, bool asleep = true) {
        return describe({.phase = p, .ever_ready = true, .asleep = asleep});
    };
    EXPECT_EQ(of(executor_phase::sleeping).status, "sleeping");
    EXPECT_EQ(of(executor_phase::ending).status, "sleeping");
    EXPECT_EQ(of(executor_phase::loading).status, "loading");
    EXPECT_TRUE(of(executor_phase::sleeping).healthy());
    EXPECT_FALSE(of(executor_phase::sleeping).reasons.empty());
}

TEST(health, a_watchdog_is_fed_only_by_what_answers) {
    const auto fed = [](health_facts f) { return describe(f).round_trip; };
    EXPECT_TRUE(fed({.phase = executor_phase::up}));
    EXPECT_FALSE(fed({.phase = executor_phase::up, .answers = false}));
    EXPECT_FALSE(fed({.phase = executor_phase::ending})) << "a process that does not die";
    EXPECT_FALSE(fed({.phase = executor_phase::down}));
    EXPECT_TRUE(fed({.phase = executor_phase::sleeping}));
    EXPECT_TRUE(fed({.phase = executor_phase::loading})) << "bounded by its own deadline";
}

}  // namespace
}  // namespace troupe::actors
