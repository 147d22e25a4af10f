// Accounts of clients, and the cost model's fit.
#include "actors/scheduler/fair_share.hpp"

#include <gtest/gtest.h>

#include "actors/scheduler/cost_model.hpp"

namespace troupe::actors {
namespace {

TEST(FairShare, ANewcomerStartsLevelWithTheLeastServed) {
    fair_share s;
    s.enter("a");
    s.enter("b");
    s.charge("a", 1000);
    s.charge("b", 400);
    s.enter("c");
    EXPECT_EQ(s.served("c"), 400);
}

TEST(FairShare, WaitingSavesUpNothingAndLeavingForgivesNothing) {
    fair_share s;
    s.enter("a");
    s.charge("a", 900);
    s.leave("a");
    s.enter("b");
    s.charge("b", 100);
    s.enter("a");
    EXPECT_EQ(s.served("a"), 900);
    s.leave("b");
    s.charge("a", 5000);
    s.enter("b");
    EXPECT_EQ(s.served("b"), 5900);
}

TEST(FairShare, IdleClientsAreForgottenSoThatTheMapStaysSmall) {
    fair_share s;
    for (int i = 0; i < 5000; ++i) {
        s.enter("client" + std::to_string(i));
        s.leave("client" + std::to_string(i));
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

}  // namespace
}  // namespace troupe::actors
