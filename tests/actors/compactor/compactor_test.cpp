// When memory goes back, as decisions and as messages in virtual time.
#include "actors/compactor/policy.hpp"

#include <caf/event_based_actor.hpp>

#include "actors/compactor/compactor_actor.hpp"
#include "tests/support/actor_fixture.hpp"

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;
using kind = compactor_policy::order::kind;

kv_usage usage(std::int64_t committed, std::int64_t empty, bool idle) {
    kv_usage u;
    u.segment_bytes = 4096;
    u.segments_committed = committed;
    u.segments_empty = empty;
    u.segments_max = 64;
    u.idle = idle;
    return u;
}

TEST(CompactorPolicy, EverythingGoesBackAfterALongPause) {
    compactor_policy p(60s);
    const steady_time t{};
    p.usage(usage(10, 0, true), t);
    EXPECT_EQ(p.wakeup(), t + 60s);
    EXPECT_FALSE(p.decide(t + 59s));
    EXPECT_EQ(p.decide(t + 60s), (compactor_policy::order{kind::shrink, 0}));
    EXPECT_FALSE(p.decide(t + 200s)) << "once";
    EXPECT_FALSE(p.wakeup());
}

TEST(CompactorPolicy, WorkInBetweenStartsThePauseAnew) {
    compactor_policy p(60s);
    const steady_time t{};
    p.usage(usage(10, 0, true), t);
    p.usage(usage(10, 0, false), t + 30s);
    EXPECT_FALSE(p.wakeup());
    p.usage(usage(10, 0, true), t + 40s);
    EXPECT_FALSE(p.decide(t + 99s));
    EXPECT_TRUE(p.decide(t + 100s));
}

TEST(CompactorPolicy, ZeroMeansNeverAndNothingHeldMeansNothingToDo) {
    compactor_policy never(0s);
    never.usage(usage(2, 0, true), steady_time{});
    EXPECT_FALSE(never.wakeup());
    compactor_policy p(60s);
    p.usage(usage(0, 0, true), steady_time{});
    EXPECT_FALSE(p.wakeup());
}

TEST(CompactorPolicy, ManyEmptySegmentsGoBackWhileOthersWork) {
    compactor_policy p(60s);
    const steady_time t{};
    p.usage(usage(10, 2, false), t);
    EXPECT_FALSE(p.wakeup()) << "two are spare";
    p.usage(usage(10, 3, false), t);
    p.usage(usage(10, 5, false), t + 5s);
    EXPECT_FALSE(p.decide(t + 9s));
    EXPECT_EQ(p.decide(t + 10s), (compactor_policy::order{kind::release_empty, 0}));
    p.usage(usage(10, 5, false), t + 11s);
    p.usage(usage(10, 1, false), t + 12s);
    EXPECT_FALSE(p.decide(t + 60s)) << "they were needed again";
}

class Compactor : public troupe::test::actor_test {
 protected:
    Compactor() {
        scheduler_ = spawn([this](caf::event_based_actor*) -> caf::behavior {
            return {
                [this](compactor_atom, const caf::actor&) { heard.emplace_back("hello"); },
                [this](compact_atom) {
                    heard.emplace_back("release");
                    return std::string("{}");
                },
                [this](compact_atom, std::uint64_t bytes) {
                    heard.push_back("shrink " + std::to_string(bytes));
                    return std::string("{}");
                },
            };
        });
        compactor_ = own(spawn_compactor(system, scheduler_, 60s));
        run();
    }
    std::vector<std::string> heard;
    caf::actor scheduler_, compactor_;
};

TEST_F(Compactor, IdleShrinkInVirtualTimeAndSilenceAfterwards) {
    EXPECT_EQ(heard, (std::vector<std::string>{"hello"}));
    caf::anon_send(compactor_, usage(10, 1, true));
    advance(59'900ms);
    EXPECT_EQ(heard.size(), 1u);
    advance(200ms);
    EXPECT_EQ(heard, (std::vector<std::string>{"hello", "shrink 0"}));
    caf::anon_send(compactor_, usage(0, 0, true));
    run();
    scheduler().advance_time(3600s);
    EXPECT_FALSE(scheduler().has_job());
}

TEST_F(Compactor, WorkPutsOffTheShrink) {
    caf::anon_send(compactor_, usage(10, 1, true));
    advance(30s);
    caf::anon_send(compactor_, usage(10, 1, false));
    advance(10s);
    caf::anon_send(compactor_, usage(10, 1, true));
    advance(59'900ms);
    EXPECT_EQ(heard.size(), 1u);
    advance(200ms);
    EXPECT_EQ(heard.back(), "shrink 0");
}

TEST_F(Compactor, EmptySegmentsAreReturnedWhileServing) {
    caf::anon_send(compactor_, usage(16, 6, false));
    advance(10'100ms);
    EXPECT_EQ(heard.back(), "release");
}

}  // namespace
}  // namespace troupe::actors
