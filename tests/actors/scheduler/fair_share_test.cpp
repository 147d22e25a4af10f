// Accounts of clients, and the cost model's fit.
#include "actors/scheduler/fair_share.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "actors/scheduler/cost_model.hpp"

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;

TEST(FairShare, ANewcomerStartsLevelWithTheLeastServed) {
    fair_share s;
    s.enter("a", "");
    s.enter("b", "");
    s.charge("a", "", 1000);
    s.charge("b", "", 400);
    s.enter("c", "");
    EXPECT_EQ(s.served("c"), 400);
    EXPECT_LT(s.of("c", {}, {}).turn, 1u) << "and comes first among equals";
}

TEST(FairShare, WaitingSavesUpNothingAndLeavingForgivesNothing) {
    fair_share s;
    s.enter("a", "");
    s.charge("a", "", 900);
    s.leave("a", "");
    s.enter("b", "");
    s.charge("b", "", 100);
    s.enter("a", "");
    EXPECT_EQ(s.served("a"), 900);
    s.leave("b", "");
    s.charge("a", "", 5000);
    s.enter("b", "");
    EXPECT_EQ(s.served("b"), 5900);
}

TEST(FairShare, SessionsOfAClientAreAccountsToo) {
    fair_share s;
    s.enter("a", "long");
    s.charge("a", "long", 700);
    s.enter("a", "short");
    s.charge("a", "short", 50);
    EXPECT_EQ(s.served("a"), 750);
    EXPECT_EQ(s.served("a", "long"), 700);
    EXPECT_EQ(s.served("a", "short"), 750) << "it entered level";
}

TEST(FairShare, WhoWaitsWithNothingRunningGainsOnTheOthers) {
    fair_share s;
    const steady_time start = steady_time{} + 1h;
    for (const char* who : {"starved", "busy", "fresh"}) s.enter(who, "");
    s.charge("starved", "", 10'000);
    s.begin("busy", "");
    const auto level = [&](const char* who, steady_time since, steady_time now) { return s.of(who, since, now).level; };
    EXPECT_GT(level("starved", start, start), level("fresh", start, start));
    EXPECT_LT(level("starved", start, start + 60s), level("fresh", start + 59s, start + 60s));
    EXPECT_EQ(level("busy", start, start + 60s), 0) << "it is being served";
    s.end("busy", "", start + 60s);
    EXPECT_EQ(level("busy", start, start + 60s), 0) << "and was until now";
    EXPECT_LT(level("busy", start, start + 61s), 0);
}

TEST(FairShare, IdleAccountsAreForgottenSoThatTheMapStaysSmall) {
    fair_share s;
    for (int i = 0; i < 5000; ++i) {
        s.enter("client" + std::to_string(i), "");
        s.leave("client" + std::to_string(i), "");
    }
    EXPECT_LE(s.n_known(), 1024u);
}

TEST(CostModel, FindsBaseAndSlopeOfAPromptToken) {
    cost_model m;
    for (int i = 0; i < 50; ++i) m.observe(4, 0, 0, 15);
    EXPECT_NEAR(m.decode_ms(), 15, 1e-9);
    for (int i = 0; i < 200; ++i) {
        const int n = 16 + (i % 5) * 16, start = (i % 7) * 1000;
        const double depth = n * (start + n / 2.0);
        m.observe(4, n, depth, 15 + 2.0 * n + 0.5 * depth / 1024);
    }
    EXPECT_NEAR(m.prompt_ms(10, 0), 20, 0.5);
    EXPECT_NEAR(m.prompt_ms(10, 10'240), 70, 2);
    EXPECT_EQ(m.chunk(41, 0, 4, 512), 20);
    EXPECT_EQ(m.chunk(0.1, 0, 4, 512), 4) << "something always moves";
    EXPECT_EQ(m.chunk(1e9, 0, 4, 512), 512);
    EXPECT_EQ(m.chunk(41, 0, 4, 3), 3);
}

TEST(CostModel, KnowsNothingAtFirst) {
    const cost_model m;
    EXPECT_FALSE(m.knows_prompt());
    EXPECT_EQ(m.chunk(50, 0, 32, 512), 32);
    EXPECT_EQ(m.decode_ms(), 0);
}

TEST(PromptShare, FindsWhatKeepsOneStepInAHundredWithinThreeTimesTheUsual) {
    for (const double noise : {0.05, 0.5, 0.8}) {
        std::mt19937_64 random(7);
        std::exponential_distribution<> late(1 / noise);
        prompt_share share;
        std::vector<double> steps;
        for (int i = 0; i < 20'000; ++i) {
            const double ms = 10 * (1 + share.of_decode()) * (1 + 0.3 * late(random));
            share.observe(ms, 10);
            if (i >= 5000) steps.push_back(ms);
        }
        std::sort(steps.begin(), steps.end());
        EXPECT_LE(steps[steps.size() * 99 / 100], 30) << noise;
        EXPECT_GT(share.of_decode(), noise < 0.1 ? 1.3 : 0.2) << "and no more is given up than must be";
    }
}

}  // namespace
}  // namespace troupe::actors
