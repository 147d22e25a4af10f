// The state table of design section 5, event by event, and the promises about time, fairness and bounds.
#include "actors/scheduler/policy.hpp"

#include <algorithm>

#include "core/limits.hpp"
#include "policy_bench.hpp"

namespace troupe::actors {
namespace {

using test::answer_of;
using test::full_layout;
using test::policy_bench;
using test::settings;
using test::tokens_from;
using test::windowed_layout;
using namespace std::chrono_literals;

// ---- the ordinary course

TEST(Policy, OneRequestRunsFromQueueToEnd) {
    policy_bench b(settings());
    b.up();
    const auto prompt = tokens_from(100, 40);
    ASSERT_TRUE(b.submit(1, prompt, 6).ok());
    const auto first = b.send();
    ASSERT_EQ(first.size(), 1u);
    EXPECT_TRUE(first[0].rows.empty()) << "memory first: no block is used before its commit is confirmed";
    EXPECT_EQ(first[0].ops.size(), 1u);
    b.run();
    EXPECT_EQ(b.got[1], answer_of(prompt, 6));
    const auto end = b.end(1);
    EXPECT_EQ(end.why, finish::length);
    EXPECT_EQ(end.n_tokens, 6);
    EXPECT_EQ(end.usage, (usage_counts{40, 6, 0}));
    EXPECT_EQ(end.timings.prompt_n, 40);
    EXPECT_EQ(end.timings.predicted_n, 6);
    EXPECT_GT(end.timings.prompt_ms, 0);
    EXPECT_GT(end.timings.predicted_ms, 0);
    EXPECT_TRUE(b.policy.idle());
    EXPECT_FALSE(b.policy.wakeup(b.now)) << "no timer when idle";
    EXPECT_EQ(b.policy.kv()->pool().counts(0).owned, 0);
    EXPECT_EQ(b.executor->open_sequences(), 0u);
    const auto progress = b.all<prompt_progress>(1);
    ASSERT_GE(progress.size(), 2u);
    EXPECT_EQ(progress.front().processed, 0);
    EXPECT_EQ(progress.back().processed, 40);
    EXPECT_EQ(progress.back().total, 40);
}

TEST(Policy, AnEndTokenStopsAndIsNotPartOfTheText) {
    // Some prompt whose answer ends by itself after a few tokens.
    std::vector<token_id> prompt;
    for (token_id first = 10; first < 900 && prompt.empty(); ++first) {
        const auto t = tokens_from(first, 20);
        const auto n = sim::answer_of(t, 50).size();
        if (n > 1 && n < 50) prompt = t;
    }
    ASSERT_FALSE(prompt.empty());
    policy_bench b(settings());
    b.up();
    generation_request r;
    r.id = 1;
    r.client_key = "a";
    r.prompt = std::make_shared<const std::vector<token_id>>(prompt);
    r.params.max_tokens = 50;
    r.params.end_tokens = {sim::end_token};
    ASSERT_TRUE(b.submit(std::move(r)).ok());
    b.run();
    EXPECT_EQ(b.got[1], sim::answer_of(prompt, 50));
    EXPECT_EQ(b.end(1).why, finish::stop);
    EXPECT_EQ(b.end(1).n_tokens, static_cast<std::int64_t>(b.got[1].size()));
}

TEST(Policy, RunAheadSendsTheNextStepBeforeTheResult) {
    policy_bench b(settings(4, 2));
    b.up();
    ASSERT_TRUE(b.submit(1, tokens_from(100, 16), 20).ok());
    b.send();
    b.step();  // the commit
    const auto plans = b.send();
    ASSERT_EQ(plans.size(), 2u);
    EXPECT_EQ(plans[0].rows[0].pos, 0);
    EXPECT_EQ(plans[0].rows[0].n, 16);
    EXPECT_TRUE(plans[0].rows[0].sample);
    EXPECT_EQ(plans[1].rows[0].pos, 16) << "the token that was just sampled, which nobody here knows yet";
    EXPECT_EQ(b.policy.n_in_flight(), 2u);
    EXPECT_TRUE(b.send().empty());
}

TEST(Policy, NoRowIsSentPastTheLastToken) {
    policy_bench b(settings(4, 4));
    b.up();
    ASSERT_TRUE(b.submit(1, tokens_from(100, 16), 2).ok());
    std::int64_t rows = 0;
    for (b.send(); !b.sent.empty(); b.send()) rows += static_cast<std::int64_t>(b.step().rows.size());
    EXPECT_EQ(rows, 2) << "the prompt, and one decode row for the second token";
    EXPECT_EQ(b.policy.counters().tokens_wasted, 0u);
}

TEST(Policy, ManySequencesShareAStepAndDoNotDisturbEachOther) {
    policy_bench b(settings(8));
    b.up();
    for (generation_id id = 1; id <= 8; ++id)
        ASSERT_TRUE(b.submit(id, tokens_from(static_cast<token_id>(50 * id), 10 + static_cast<int>(id)), 30).ok());
    std::size_t widest = 0;
    for (b.send(); !b.sent.empty(); b.send()) widest = std::max(widest, b.step().rows.size());
    EXPECT_EQ(widest, 8u);
    for (generation_id id = 1; id <= 8; ++id)
        EXPECT_EQ(b.got[id], answer_of(tokens_from(static_cast<token_id>(50 * id), 10 + static_cast<int>(id)), 30))
            << id;
}

TEST(Policy, MaxTokensZeroEndsAtOnceAndNegativeGoesToTheEndOfTheContext) {
    policy_bench b(settings(), full_layout(), 64, 64);
    b.up();
    ASSERT_TRUE(b.submit(1, tokens_from(100, 16), 0).ok());
    EXPECT_EQ(b.end(1).why, finish::length);
    EXPECT_EQ(b.end(1).n_tokens, 0);
    ASSERT_TRUE(b.submit(2, tokens_from(100, 40), -1).ok());
    b.run();
    EXPECT_EQ(b.end(2).why, finish::length);
    EXPECT_EQ(b.got[2].size(), 24u);
}

TEST(Policy, APromptIsScoredWithoutTheCacheAndTheScoresComeWithTheFirstToken) {
    policy_bench b(settings());
    b.up();
    const auto prompt = tokens_from(100, 64);
    ASSERT_TRUE(b.submit(1, prompt, 2).ok());
    b.run();
    generation_request r;
    r.id = 2;
    r.client_key = "a";
    r.prompt = std::make_shared<const std::vector<token_id>>(prompt);
    r.params.max_tokens = 0;
    r.params.prompt_logprobs = true;
    ASSERT_TRUE(b.submit(std::move(r)).ok());
    b.run();
    EXPECT_EQ(b.end(2).why, finish::length);
    EXPECT_EQ(b.end(2).n_tokens, 0);
    EXPECT_EQ(b.end(2).usage.cached_tokens, 0);
    EXPECT_TRUE(b.got[2].empty());
}

// ---- stopping

TEST(Policy, CancelInTheQueueEndsAtOnce) {
    policy_bench b(settings(1));
    b.up();
    ASSERT_TRUE(b.submit(1, tokens_from(100, 16), 50).ok());
    ASSERT_TRUE(b.submit(2, tokens_from(200, 16), 50).ok());
    b.send();
    b.policy.cancel(2, b.now);
    b.listen();
    EXPECT_EQ(b.end(2).why, finish::cancelled);
    EXPECT_EQ(b.policy.n_waiting(), 0);
    b.run();
    EXPECT_EQ(b.got[1].size(), 50u);
}

TEST(Policy, CancelWhileRunningTellsOwnerAndExecutorAtOnceAndFreesWhenThePlansAreBack) {
    policy_bench b(settings());
    b.up();
    ASSERT_TRUE(b.submit(1, tokens_from(100, 200), 50).ok());
    b.send();
    b.step();
    b.send();
    b.step();
    b.send();
    ASSERT_EQ(b.policy.n_in_flight(), 2u);
    b.policy.cancel(1, b.now);
    EXPECT_EQ(b.policy.take_cancels().size(), 1u) << "past the plan queue";
    b.listen();
    EXPECT_EQ(b.end(1).why, finish::cancelled);
    EXPECT_GT(b.policy.kv()->pool().counts(0).owned, 0) << "plans in flight still write there";
    b.run();
    EXPECT_TRUE(b.policy.idle());
    EXPECT_EQ(b.policy.kv()->pool().counts(0).owned, 0);
    EXPECT_EQ(b.policy.kv()->cache().n_nodes(), 0) << "its prompt never got a finite row: nothing is cached";
    EXPECT_TRUE(b.all<generation_tokens>(1).empty());
    b.policy.cancel(1, b.now);  // again: nothing
    b.policy.cancel(77, b.now);
}

TEST(Policy, AStopStringEndsTheTextWhereItSays) {
    policy_bench b(settings(4, 4));
    b.up();
    ASSERT_TRUE(b.submit(1, tokens_from(100, 16), 100).ok());
    b.run_until_tokens(1, 10);
    b.policy.stop_at(1, 7, b.now);
    b.listen();
    EXPECT_EQ(b.end(1).why, finish::stop);
    EXPECT_EQ(b.end(1).n_tokens, 7);
    EXPECT_EQ(b.end(1).usage.completion_tokens, 7);
    b.executor->cancel(b.policy.take_cancels());
    b.run();
    EXPECT_TRUE(b.policy.idle());
}

TEST(Policy, DrainRefusesNewWorkAndFinishesTheOld) {
    policy_bench b(settings());
    b.up();
    ASSERT_TRUE(b.submit(1, tokens_from(100, 16), 5).ok());
    b.policy.drain();
    EXPECT_EQ(b.submit(2, tokens_from(100, 16), 5).error().code, errc::shutting_down);
    b.run();
    EXPECT_EQ(b.got[1].size(), 5u);
}

// ---- the queue

TEST(Policy, TheQueueIsBoundedAndSaysWhenToComeBack) {
    auto s = settings(2);
    s.queue_limit = 10;
    policy_bench b(s);
    b.up();
    int taken = 0, refused = 0;
    for (generation_id id = 1; id <= 200; ++id) {
        const auto r = b.submit(id, tokens_from(static_cast<token_id>(id), 12), 5, "c" + std::to_string(id % 3));
        b.send();
        if (r.ok()) {
            ++taken;
            continue;
        }
        ++refused;
        EXPECT_EQ(r.error().code, errc::queue_full);
        EXPECT_GE(r.error().retry_after_ms, 1000);
    }
    EXPECT_EQ(taken, 12) << "two run, ten wait";
    EXPECT_EQ(refused, 188);
    b.run();
    for (generation_id id = 1; id <= 12; ++id) EXPECT_EQ(b.end(id).why, finish::length);
}

TEST(Policy, WaitingRequestsHearTheirPositionWhenItChangesAtMostTwiceASecond) {
    policy_bench b(settings(1));
    b.up();
    for (generation_id id = 1; id <= 4; ++id)
        ASSERT_TRUE(b.submit(id, tokens_from(static_cast<token_id>(100 * id), 16), 60).ok());
    b.run();
    EXPECT_TRUE(b.all<generation_position>(1).empty()) << "it never waited";
    const auto heard = b.all<generation_position>(4);
    ASSERT_EQ(heard.size(), 3u);
    EXPECT_EQ(heard[0].position, 3);
    EXPECT_FALSE(heard[0].eta_ms) << "nothing was measured yet";
    EXPECT_EQ(heard[1].position, 2);
    EXPECT_TRUE(heard[1].eta_ms);
    EXPECT_EQ(heard[2].position, 1);
}

TEST(Policy, AWaitingRequestTimesOutAndARunningOneDoesNot) {
    auto s = settings(1);
    s.queue_timeout_s = 5;
    policy_bench b(s);
    b.up();
    ASSERT_TRUE(b.submit(1, tokens_from(100, 16), 400).ok());
    ASSERT_TRUE(b.submit(2, tokens_from(200, 16), 5).ok());
    for (b.send(); !b.sent.empty(); b.send()) b.step(50);
    EXPECT_EQ(b.end(1).why, finish::length);
    EXPECT_EQ(b.end(2).why, finish::failed);
    EXPECT_EQ(b.end(2).err.code, errc::queue_timeout);
}

TEST(Policy, ClientsTakeTurnsHoweverManyRequestsOneOfThemHas) {
    policy_bench b(settings(1));
    b.up();
    for (generation_id id = 1; id <= 10; ++id)
        ASSERT_TRUE(b.submit(id, tokens_from(static_cast<token_id>(10 * id), 16), 10, "greedy").ok());
    b.send();
    ASSERT_TRUE(b.submit(11, tokens_from(500, 16), 10, "modest").ok());
    ASSERT_TRUE(b.submit(12, tokens_from(600, 16), 10, "modest").ok());
    b.run();
    std::vector<generation_id> ends;
    for (const notice& n : b.notices)
        if (std::holds_alternative<generation_finished>(n)) ends.push_back(about(n));
    EXPECT_EQ(ends[0], 1u);
    EXPECT_EQ(ends[1], 11u);
    EXPECT_LE(std::find(ends.begin(), ends.end(), 12u) - ends.begin(), 3);
}

TEST(Policy, ServedTokensOfBusyClientsStayCloseTogether) {
    policy_bench b(settings(2));
    b.up();
    std::map<std::string, std::int64_t> served;
    generation_id id = 0;
    // "long" sends prompts eight times the size; each always has three requests waiting.
    const auto feed = [&](const std::string& client, int prompt) {
        ++id;
        ASSERT_TRUE(b.submit(id, tokens_from(static_cast<token_id>(id % 500), prompt), 8, client).ok());
    };
    for (int i = 0; i < 3; ++i) feed("long", 160), feed("short", 20);
    std::size_t seen = 0;
    for (int steps = 0; steps < 1500; ++steps) {
        b.send();
        b.step();
        for (; seen < b.notices.size(); ++seen) {
            const auto* f = std::get_if<generation_finished>(&b.notices[seen]);
            if (!f) continue;
            const bool is_long = f->usage.prompt_tokens == 160;
            served[is_long ? "long" : "short"] += f->timings.prompt_n + 2 * f->timings.predicted_n;
            feed(is_long ? "long" : "short", is_long ? 160 : 20);
        }
    }
    const auto gap = std::abs(served["long"] - served["short"]);
    EXPECT_GT(served["short"], 1000);
    EXPECT_LT(gap, 3 * (160 + 16)) << served["long"] << " " << served["short"];
}

TEST(Policy, BatchWorkWaitsForInteractiveWorkButNotForEver) {
    policy_bench b(settings(1));
    b.up();
    ASSERT_TRUE(b.submit(1, tokens_from(100, 16), 10).ok());
    b.send();
    generation_request r;
    r.id = 2;
    r.client_key = "batch";
    r.prompt = std::make_shared<const std::vector<token_id>>(tokens_from(200, 16));
    r.params.max_tokens = 5;
    r.batch_priority = true;
    ASSERT_TRUE(b.submit(std::move(r)).ok());
    ASSERT_TRUE(b.submit(3, tokens_from(300, 16), 5).ok());
    EXPECT_EQ(b.policy.queue_order(b.now).front()->request.id, 3u);
    EXPECT_EQ(b.policy.queue_order(b.now + 31s).front()->request.id, 2u);
}

TEST(Policy, ARequestThatDoesNotFitDoesNotStopThoseBehindIt) {
    policy_bench b(settings(4), full_layout(), 8);  // 32 blocks
    b.up();
    ASSERT_TRUE(b.submit(1, tokens_from(100, 300), 100, "a").ok());  // 19 blocks and growing
    b.run_until_tokens(1, 1);
    ASSERT_TRUE(b.submit(2, tokens_from(500, 300), 5, "b").ok());  // does not fit beside it
    ASSERT_TRUE(b.submit(3, tokens_from(900, 40), 5, "c").ok());
    b.run_until_tokens(3, 5);
    EXPECT_EQ(b.got[3].size(), 5u);
    EXPECT_TRUE(b.got[2].empty());
    b.run();
    EXPECT_EQ(b.got[2], answer_of(tokens_from(500, 300), 5));
}

TEST(Policy, WhatCanNeverFitIsRefusedWithNumbers) {
    policy_bench b(settings(), full_layout(), 2, 4096);  // 128 tokens
    b.up();
    EXPECT_EQ(b.policy.sequence_limit(), 128);
    const auto r = b.submit(1, tokens_from(100, 200), 5);
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().code, errc::out_of_memory);
    EXPECT_NE(r.error().message.find("128"), std::string::npos);
    const auto long_one = b.submit(2, tokens_from(100, 5000), 5);
    ASSERT_FALSE(long_one.ok());
    EXPECT_EQ(long_one.error().code, errc::context_length_exceeded);
    EXPECT_EQ(long_one.error().n_prompt_tokens, 5000);
    EXPECT_EQ(long_one.error().n_ctx, 4096);
    ASSERT_TRUE(b.submit(3, tokens_from(100, 100), 400).ok());
    b.run();
    EXPECT_EQ(b.end(3).why, finish::length);
    EXPECT_EQ(b.got[3].size(), 28u) << "to the end of what memory holds";
}

TEST(Policy, IdleSessionsCacheMakesWayForNewRequests) {
    policy_bench b(settings(4), full_layout(), 8);  // 512 tokens
    b.up();
    for (generation_id id = 1; id <= 6; ++id) {
        ASSERT_TRUE(b.submit(id, tokens_from(static_cast<token_id>(100 * id), 80), 4).ok());
        b.run();
    }
    EXPECT_GT(b.policy.kv()->pool().counts(0).cached, 20);
    ASSERT_TRUE(b.submit(7, tokens_from(900, 450), 4).ok());
    b.run();
    EXPECT_EQ(b.got[7], answer_of(tokens_from(900, 450), 4));
    EXPECT_EQ(b.policy.counters().preemptions, 0u);
}

}  // namespace
}  // namespace troupe::actors
