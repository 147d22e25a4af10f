// When memory goes back, as decisions and as messages in virtual time.
#include "actors/compactor/policy.hpp"

#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <caf/event_based_actor.hpp>

#include "actors/compactor/compactor_actor.hpp"
#include "tests/support/actor_fixture.hpp"

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;

kv_usage usage(std::int64_t committed, std::int64_t needed, std::optional<steady_time> coldest = {}) {
    kv_usage u;
    u.segment_bytes = 4096;
    u.segments_committed = committed;
    u.segments_needed = needed;
    u.segments_max = 64;
    u.coldest = coldest;
    return u;
}

TEST(CompactorPolicy, WhatWasNotUsedForLongGoesWhoeverElseWorks) {
    compactor_policy p(60s);
    const steady_time t{};
    p.usage(usage(10, 10, t), t + 20s);
    EXPECT_EQ(p.wakeup(), t + 60s);
    EXPECT_FALSE(p.decide(t + 59s));
    EXPECT_EQ(p.decide(t + 60s), (memory_order{t + 1ns, 0}));
    EXPECT_FALSE(p.decide(t + 200s)) << "once";
    EXPECT_FALSE(p.wakeup());
    p.usage(usage(10, 10, t + 100ms), t + 60s);
    EXPECT_EQ(p.wakeup(), t + 61s) << "blocks get cold one after the other, but are looked at once a second";
}

TEST(CompactorPolicy, UseInBetweenPutsItOff) {
    compactor_policy p(60s);
    const steady_time t{};
    p.usage(usage(10, 10, t), t);
    p.usage(usage(10, 10), t + 30s);  // all is in use
    EXPECT_FALSE(p.wakeup());
    p.usage(usage(10, 10, t + 40s), t + 41s);
    EXPECT_FALSE(p.decide(t + 99s));
    EXPECT_TRUE(p.decide(t + 100s));
}

TEST(CompactorPolicy, ZeroMeansNeverAndNothingHeldMeansNothingToDo) {
    compactor_policy never(0s);
    never.usage(usage(2, 1, steady_time{}), steady_time{});
    EXPECT_FALSE(never.wakeup());
    compactor_policy p(60s);
    p.usage(usage(0, 0), steady_time{});
    EXPECT_FALSE(p.wakeup());
}

TEST(CompactorPolicy, ManySpareSegmentsGoBackSoonAndAllThatIsNotNeededLater) {
    compactor_policy p(60s);
    const steady_time t{};
    p.usage(usage(10, 8), t);
    EXPECT_EQ(p.wakeup(), t + 60s) << "two are spare";
    p.usage(usage(10, 7), t);
    p.usage(usage(10, 5), t + 5s);
    EXPECT_FALSE(p.decide(t + 9s));
    EXPECT_EQ(p.decide(t + 10s), (memory_order{{}, 2}));
    p.usage(usage(10, 5), t + 11s);
    p.usage(usage(10, 9), t + 12s);
    EXPECT_FALSE(p.decide(t + 59s)) << "they were needed again";
    EXPECT_EQ(p.decide(t + 60s), (memory_order{{}, 0})) << "one was not, for a minute";
}

class Compactor : public troupe::test::actor_test {
 protected:
    Compactor() {
        scheduler_ = spawn([this](caf::event_based_actor*) -> caf::behavior {
            return {
                [this](compactor_atom, const caf::actor&) { heard.emplace_back("hello"); },
                [this](const memory_pressure& p) { heard.emplace_back(p.refuse ? "refuse" : "accept"); },
                [this](const memory_order& o) {
                    if (o.at_once) return heard.emplace_back("evict at once"), void();
                    heard.push_back(
                        (o.evict_before == steady_time{} ? "pack " : "evict, pack ") + std::to_string(o.spare));
                },
            };
        });
        compactor_ = own(spawn_compactor(system, scheduler_, 60s));
        run();
    }
    ~Compactor() override { std::filesystem::remove_all(root_); }
    /// What the system would say, below root_.
    void say(std::uint64_t available_mib, double some, double full) {
        std::filesystem::create_directories(root_ / "proc/pressure");
        std::ofstream(root_ / "proc/meminfo")
            << "MemTotal: 9000000 kB\nMemAvailable: " << available_mib * 1024 << " kB\n";
        std::ofstream(root_ / "proc/pressure/memory")
            << "some avg10=" << some << " avg60=0.00 avg300=0.00 total=12\nfull avg10=" << full
            << " avg60=0.00 avg300=0.00 total=3\n";
    }
    std::filesystem::path root_ =
        std::filesystem::temp_directory_path() / ("troupe-pressure-" + std::to_string(::getpid()));
    steady_time now() { return system.clock().now(); }
    std::vector<std::string> heard;
    caf::actor scheduler_, compactor_;
};

TEST_F(Compactor, ColdMemoryGoesInVirtualTimeAndThenThereIsSilence) {
    EXPECT_EQ(heard, (std::vector<std::string>{"hello"}));
    caf::anon_send(compactor_, usage(10, 10, now()));
    advance(59'900ms);
    EXPECT_EQ(heard.size(), 1u);
    advance(200ms);
    EXPECT_EQ(heard, (std::vector<std::string>{"hello", "evict, pack 0"}));
    caf::anon_send(compactor_, usage(0, 0));
    run();
    scheduler().advance_time(3600s);
    EXPECT_FALSE(scheduler().has_job());
}

TEST_F(Compactor, WorkPutsOffTheShrink) {
    caf::anon_send(compactor_, usage(10, 10, now()));
    advance(30s);
    caf::anon_send(compactor_, usage(10, 10));
    advance(10s);
    caf::anon_send(compactor_, usage(10, 10, now()));
    advance(59'900ms);
    EXPECT_EQ(heard.size(), 1u);
    advance(200ms);
    EXPECT_EQ(heard.back(), "evict, pack 0");
}

TEST_F(Compactor, PressureFromOutsideTakesTheCacheThenNewWorkAndGivesBothBack) {
    say(4000, 0, 0);
    heard.clear();
    compactor_ = own(spawn_compactor(system, scheduler_, 60s, root_));
    caf::anon_send(compactor_, usage(4, 4));  // something runs
    advance(2s);
    EXPECT_EQ(heard, (std::vector<std::string>{"hello"}));
    say(200, 0, 0);
    advance(1010ms);
    ASSERT_EQ(heard.size(), 3u);
    EXPECT_EQ(heard[1], "evict at once");
    EXPECT_EQ(heard[2], "accept");
    say(100, 0, 0);
    advance(1010ms);
    EXPECT_EQ(heard.back(), "refuse");
    say(150, 0, 0);
    advance(1010ms);
    EXPECT_NE(heard.back(), "accept") << "not before there is more than when it began";
    say(4000, 0, 0);
    advance(1010ms);
    EXPECT_EQ(heard.back(), "accept");
    heard.clear();
    say(4000, 30, 25);  // there is memory, but everybody waits for it
    advance(1010ms);
    EXPECT_EQ(heard.back(), "refuse");
}

TEST_F(Compactor, IdleWithoutMemoryNobodyLooks) {
    say(10, 90, 90);
    compactor_ = own(spawn_compactor(system, scheduler_, 60s, root_));
    kv_usage idle = usage(0, 0);
    idle.idle = true;
    caf::anon_send(compactor_, idle);
    run();
    scheduler().advance_time(3600s);
    EXPECT_FALSE(scheduler().has_job());
}

TEST_F(Compactor, SpareSegmentsAreReturnedWhileServing) {
    caf::anon_send(compactor_, usage(16, 10));
    advance(10'100ms);
    EXPECT_EQ(heard.back(), "pack 2");
}

}  // namespace
}  // namespace troupe::actors
