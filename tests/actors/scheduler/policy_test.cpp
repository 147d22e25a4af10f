// The state table of design section 5, event by event, and the promises about time, fairness and bounds.
#include "actors/scheduler/policy.hpp"

#include <algorithm>
#include <set>

#include "core/limits.hpp"
#include "policy_bench.hpp"

namespace troupe::actors {
namespace {

using test::full_layout;
using test::policy_bench;
using test::tokens_from;
using test::windowed_layout;
using namespace std::chrono_literals;

/// Of requests without end tokens.
std::vector<token_id> answer_of(const std::vector<token_id>& prompt, std::int64_t n) { return sim::answer_of(prompt, n, false); }

policy_settings settings(int seqs = 4, int ahead = 2) {
    policy_settings s;
    s.max_seqs = seqs;
    s.run_ahead = ahead;
    return s;
}

// ---- the ordinary course ---------------------------------------------------------------------------------------------

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
    for (generation_id id = 1; id <= 8; ++id) ASSERT_TRUE(b.submit(id, tokens_from(static_cast<token_id>(50 * id), 10 + static_cast<int>(id)), 30).ok());
    std::size_t widest = 0;
    for (b.send(); !b.sent.empty(); b.send()) widest = std::max(widest, b.step().rows.size());
    EXPECT_EQ(widest, 8u);
    for (generation_id id = 1; id <= 8; ++id)
        EXPECT_EQ(b.got[id], answer_of(tokens_from(static_cast<token_id>(50 * id), 10 + static_cast<int>(id)), 30)) << id;
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

// ---- stopping --------------------------------------------------------------------------------------------------------

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

// ---- the queue -------------------------------------------------------------------------------------------------------

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
    for (generation_id id = 1; id <= 4; ++id) ASSERT_TRUE(b.submit(id, tokens_from(static_cast<token_id>(100 * id), 16), 60).ok());
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
    for (generation_id id = 1; id <= 10; ++id) ASSERT_TRUE(b.submit(id, tokens_from(static_cast<token_id>(10 * id), 16), 10, "greedy").ok());
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

// ---- the prefix cache ------------------------------------------------------------------------------------------------

TEST(Policy, TheSecondTurnFindsTheFirst) {
    policy_bench b(settings());
    b.up();
    auto chat = tokens_from(100, 50);
    ASSERT_TRUE(b.submit(1, chat, 20).ok());
    b.run();
    chat.insert(chat.end(), b.got[1].begin(), b.got[1].end());
    const auto more = tokens_from(700, 10);
    chat.insert(chat.end(), more.begin(), more.end());
    ASSERT_TRUE(b.submit(2, chat, 20).ok());
    b.run();
    EXPECT_EQ(b.got[2], answer_of(chat, 20));
    // 69 positions were computed (the last token's never is): four whole blocks.
    EXPECT_EQ(b.end(2).usage.cached_tokens, 64);
    EXPECT_EQ(b.end(2).timings.prompt_n, 80 - 64);
}

TEST(Policy, AWindowedChatLongerThanItsWindowIsCachedEveryTurn) {
    policy_bench b(settings(), windowed_layout(32), 64);
    b.up();
    auto chat = tokens_from(100, 70);
    for (generation_id turn = 1; turn <= 5; ++turn) {
        ASSERT_TRUE(b.submit(turn, chat, 30).ok());
        b.run();
        EXPECT_EQ(b.got[turn], answer_of(chat, 30)) << "the same as without a cache";
        if (turn > 1) {
            EXPECT_GT(b.end(turn).usage.cached_tokens, static_cast<std::int64_t>(chat.size()) - 40) << "turn " << turn;
        }
        chat.insert(chat.end(), b.got[turn].begin(), b.got[turn].end());
        const auto more = tokens_from(static_cast<token_id>(700 + turn), 9);
        chat.insert(chat.end(), more.begin(), more.end());
    }
}

TEST(Policy, ARegeneratedAnswerComputesOneTokenOfItsPrompt) {
    policy_bench b(settings(), windowed_layout(32), 64);
    b.up();
    const auto prompt = tokens_from(100, 96);
    ASSERT_TRUE(b.submit(1, prompt, 100).ok());
    b.run();
    ASSERT_TRUE(b.submit(2, prompt, 5).ok());
    b.run();
    EXPECT_EQ(b.end(2).usage.cached_tokens, 95);
    EXPECT_EQ(b.got[2], answer_of(prompt, 5));
}

TEST(Policy, IdenticalPromptsAtTheSameTimeAreComputedOnce) {
    policy_bench b(settings(8));
    b.up();
    const auto prompt = tokens_from(100, 160);
    for (generation_id id = 1; id <= 5; ++id) ASSERT_TRUE(b.submit(id, prompt, 5).ok());
    b.run();
    for (generation_id id = 1; id <= 5; ++id) EXPECT_EQ(b.got[id], answer_of(prompt, 5));
    EXPECT_LE(b.policy.counters().prompt_tokens, 160u + 4 * 16) << "the last block by copy where a free block was at hand";
    EXPECT_EQ(b.policy.counters().prefill_shared, 4u);
}

TEST(Policy, APromptThatIsNotFiniteFailsAloneAndLeavesNothingBehind) {
    policy_bench b(settings());
    b.up();
    auto bad = tokens_from(100, 64);
    bad[50] = sim::nan_token;
    ASSERT_TRUE(b.submit(1, bad, 5).ok());
    ASSERT_TRUE(b.submit(2, tokens_from(300, 20), 30).ok());
    b.run();
    EXPECT_EQ(b.end(1).why, finish::failed);
    EXPECT_EQ(b.end(1).err.code, errc::non_finite_logits);
    EXPECT_EQ(b.got[2], answer_of(tokens_from(300, 20), 30));
    // The same beginning without the bad token: nothing of the failed prompt may be shared.
    ASSERT_TRUE(b.submit(3, tokens_from(100, 64), 5).ok());
    b.run();
    EXPECT_EQ(b.end(3).usage.cached_tokens, 0);
    EXPECT_EQ(b.got[3], answer_of(tokens_from(100, 64), 5));
}

// ---- time ------------------------------------------------------------------------------------------------------------

TEST(Policy, APromptGetsOnlyTheTimeThatKeepsDecodingSmooth) {
    policy_bench b(settings(4, 1), full_layout(8), 400, 4096);
    b.up();
    ASSERT_TRUE(b.submit(1, tokens_from(100, 16), 3000).ok());
    b.run_until_tokens(1, 20);  // decode steps of 10 ms
    ASSERT_TRUE(b.submit(2, tokens_from(500, 2000), 5).ok());
    std::int64_t steps = 0;
    double worst = 0;
    for (b.send(); b.got[2].empty(); b.send()) {
        double ms = 10;  // a prompt token costs 1.5 ms
        for (const auto& r : b.sent.front().rows) ms += r.n > 1 ? 1.5 * r.n : 0;
        if (++steps > 5) worst = std::max(worst, ms);  // the first ones measure
        b.step(ms);
    }
    EXPECT_LE(worst, 3 * 10.0) << "no gap is longer than three times the usual one";
    EXPECT_LT(steps, 2000 / 8) << "yet the prompt gets on";
}

TEST(Policy, WithNobodyDecodingAPromptGetsTheWholeBudget) {
    policy_bench b(settings(4, 1), full_layout(8), 400, 4096);
    b.up();
    ASSERT_TRUE(b.submit(1, tokens_from(100, 3000), 5).ok());
    std::int64_t largest = 0;
    for (b.send(); b.got[1].empty(); b.send()) {
        std::int64_t n = 0;
        for (const auto& r : b.sent.front().rows) n += r.n;
        largest = std::max(largest, n);
        b.step(0.5 * static_cast<double>(n));
    }
    EXPECT_GT(largest, 90);
    EXPECT_LE(largest, 110) << "50 ms at half a millisecond a token";
}

// ---- memory ----------------------------------------------------------------------------------------------------------

TEST(Policy, ShortOfBlocksTheYoungestGivesWayAndComesBack) {
    policy_bench b(settings(4), full_layout(), 8);  // 32 blocks
    b.up();
    const auto one = tokens_from(100, 200), two = tokens_from(500, 200);
    ASSERT_TRUE(b.submit(1, one, 200).ok());
    b.run_until_tokens(1, 1);
    ASSERT_TRUE(b.submit(2, two, 200).ok());
    b.run();
    EXPECT_EQ(b.got[1], answer_of(one, 200));
    EXPECT_EQ(b.got[2], answer_of(two, 200));
    EXPECT_GT(b.policy.counters().preemptions, 0u);
    EXPECT_TRUE(b.all<generation_stalled>(1).empty()) << "the older one is never driven out";
    const auto stalled = b.all<generation_stalled>(2);
    ASSERT_FALSE(stalled.empty());
    EXPECT_EQ(stalled[0].reason, "preempted");
    EXPECT_EQ(b.all<generation_moving>(2).size(), stalled.size());
    EXPECT_EQ(b.policy.counters().resumed, 0u) << "that counts executor deaths";
}

TEST(Policy, ShrinkAndReleaseGoOutAsAPlanWithoutRows) {
    policy_bench b(settings());
    b.up();
    ASSERT_TRUE(b.submit(1, tokens_from(100, 100), 10).ok());
    b.run();
    const auto held = b.executor->committed_segments();
    EXPECT_GT(held, 0u);
    b.policy.shrink_to(0);
    const auto plans = b.send();
    ASSERT_EQ(plans.size(), 1u);
    EXPECT_TRUE(plans[0].rows.empty());
    EXPECT_EQ(plans[0].ops.size(), held);
    b.run();
    EXPECT_EQ(b.executor->committed_segments(), 0u);
    EXPECT_EQ(b.policy.usage().segments_committed, 0);
    ASSERT_TRUE(b.submit(2, tokens_from(100, 100), 10).ok());
    b.run();
    EXPECT_EQ(b.got[2], answer_of(tokens_from(100, 100), 10)) << "and it grows again";
}

TEST(Policy, MemoryThatCannotBeHadDelaysAndNeverFailsTheEngine) {
    policy_bench b(settings());
    b.up();
    b.executor = std::make_unique<sim::fake_executor>(b.info, b.random, 1.0);
    const auto prompt = tokens_from(100, 30);
    ASSERT_TRUE(b.submit(1, prompt, 5).ok());
    for (int i = 0; i < 20; ++i) {
        for (b.send(); !b.sent.empty(); b.send()) b.step();
        const auto at = b.policy.wakeup(b.now);
        ASSERT_TRUE(at) << "it tries again";
        EXPECT_GE(*at - b.now, 1ms) << "but not in a circle";
        b.now = *at;
    }
    EXPECT_GT(b.policy.counters().commits_failed, 3u);
    EXPECT_TRUE(b.all<generation_finished>(1).empty());
    b.executor = std::make_unique<sim::fake_executor>(b.info, b.random, 0.0);
    b.now += 10s;
    b.run();
    EXPECT_EQ(b.got[1], answer_of(prompt, 5));
}

// ---- faults ----------------------------------------------------------------------------------------------------------

TEST(Policy, AfterADeathEverythingGoesOnWhereItWas) {
    policy_bench b(settings());
    b.up();
    const auto one = tokens_from(100, 40), two = tokens_from(500, 90);
    ASSERT_TRUE(b.submit(1, one, 40).ok());
    ASSERT_TRUE(b.submit(2, two, 40).ok());
    b.run_until_tokens(1, 15);
    const auto before = b.got[1].size();
    b.down("crash");
    EXPECT_EQ(b.all<generation_stalled>(1)[0].reason, "executor_restart");
    EXPECT_EQ(b.policy.n_waiting(), 0) << "they do not count as waiting requests";
    EXPECT_FALSE(b.policy.next_plan(b.now));
    b.now += 700ms;
    b.up();
    const auto plans = b.send();
    b.run();
    EXPECT_EQ(b.got[1], answer_of(one, 40));
    EXPECT_EQ(b.got[2], answer_of(two, 40));
    EXPECT_GE(before, 15u);
    const auto moving = b.all<generation_moving>(1);
    ASSERT_EQ(moving.size(), 1u);
    EXPECT_GE(moving[0].after_ms, 700);
    EXPECT_FALSE(moving[0].numerics_changed);
    EXPECT_EQ(b.policy.counters().resumed, 2u);
}

TEST(Policy, ResultsOfThePastAreDroppedAndCounted) {
    policy_bench b(settings());
    b.up();
    ASSERT_TRUE(b.submit(1, tokens_from(100, 40), 40).ok());
    b.run_until_tokens(1, 5);
    b.send();
    auto late = b.executor->step();
    ASSERT_TRUE(late);
    b.down("crash");
    b.policy.done(*late, b.now);
    b.up();
    b.policy.done(*late, b.now);
    late->epoch = b.info.epoch;
    b.policy.done(*late, b.now);  // the right epoch, a plan nobody sent
    EXPECT_EQ(b.policy.counters().results_dropped, 3u);
    b.run();
    EXPECT_EQ(b.got[1], answer_of(tokens_from(100, 40), 40));
}

TEST(Policy, ANewNumericsIdIsSaid) {
    policy_bench b(settings());
    b.up();
    ASSERT_TRUE(b.submit(1, tokens_from(100, 40), 40).ok());
    b.run_until_tokens(1, 5);
    b.down("device_lost");
    b.info.numerics_id = "another";
    b.up();
    b.run();
    ASSERT_EQ(b.all<generation_moving>(1).size(), 1u);
    EXPECT_TRUE(b.all<generation_moving>(1)[0].numerics_changed);
}

TEST(Policy, CancelWhileTheExecutorIsDownEndsAtOnce) {
    policy_bench b(settings());
    b.up();
    ASSERT_TRUE(b.submit(1, tokens_from(100, 40), 40).ok());
    b.run_until_tokens(1, 5);
    b.down("crash");
    b.policy.cancel(1, b.now);
    b.listen();
    EXPECT_EQ(b.end(1).why, finish::cancelled);
    EXPECT_TRUE(b.policy.idle());
    EXPECT_FALSE(b.policy.wakeup(b.now));
}

TEST(Policy, RepeatedDeathsFindTheCulpritAndTheOthersGoOn) {
    policy_bench b(settings(8));
    b.up();
    auto poison = tokens_from(100, 60);
    poison[45] = sim::killer_token;
    std::map<generation_id, std::vector<token_id>> prompts{{1, tokens_from(300, 50)}, {2, poison}, {3, tokens_from(500, 70)}, {4, tokens_from(700, 20)}};
    for (const auto& [id, prompt] : prompts) ASSERT_TRUE(b.submit(id, prompt, 30).ok());
    int deaths = 0;
    for (b.send(); !b.policy.idle() && deaths < 10; b.send()) {
        if (b.sent.empty()) break;
        const plan next = b.sent.front();
        b.sent.erase(b.sent.begin());
        auto r = b.executor->step();
        b.now += 10ms;
        if (r) {
            b.policy.done(*r, b.now);
            b.listen();
            continue;
        }
        ++deaths;
        b.down("crash", next.id);
        b.up();
    }
    EXPECT_LE(deaths, 4) << "two together, two alone";
    EXPECT_EQ(b.end(2).why, finish::failed);
    EXPECT_EQ(b.end(2).err.code, errc::executor_poisoned);
    for (const generation_id id : {1, 3, 4}) EXPECT_EQ(b.got[id], answer_of(prompts[id], 30)) << id;
    EXPECT_EQ(b.policy.counters().poisoned, 1u);
}

TEST(Policy, KillsFromOutsideMakeNobodyASuspect) {
    policy_bench b(settings());
    b.up();
    const auto prompt = tokens_from(100, 40);
    ASSERT_TRUE(b.submit(1, prompt, 20).ok());
    for (int i = 0; i < 30; ++i) {
        b.send();
        b.step();
        b.send();
        b.down("killed");
        b.up();
    }
    b.run();
    EXPECT_EQ(b.got[1], answer_of(prompt, 20));
    EXPECT_EQ(b.all<generation_stalled>(1).size(), 1u) << "paused once, though killed many times before it moved";
    EXPECT_EQ(b.all<generation_moving>(1).size(), 1u);
}

TEST(Policy, CrashesAtDifferentPlacesAreNobodysFault) {
    policy_bench b(settings());
    b.up();
    const auto prompt = tokens_from(100, 40);
    ASSERT_TRUE(b.submit(1, prompt, 100).ok());
    for (std::size_t tokens = 5; tokens < 100; tokens += 5) {
        b.run_until_tokens(1, tokens);
        b.down("crash");
        b.up();
    }
    b.run();
    EXPECT_EQ(b.got[1], answer_of(prompt, 100));
}

TEST(Policy, AnUnfinishedAnswerOfAnEarlierLifeGoesOn) {
    policy_bench b(settings());
    b.up();
    const auto prompt = tokens_from(100, 40);
    const auto whole = answer_of(prompt, 30);
    generation_request r;
    r.id = 1;
    r.client_key = "a";
    r.prompt = std::make_shared<const std::vector<token_id>>(prompt);
    r.accepted.assign(whole.begin(), whole.begin() + 12);
    r.params.max_tokens = 30;
    b.got[1] = r.accepted;
    ASSERT_TRUE(b.submit(std::move(r)).ok());
    b.run();
    EXPECT_EQ(b.got[1], whole);
    EXPECT_EQ(b.end(1).n_tokens, 30);
    EXPECT_EQ(b.submit(1, prompt, 5).ok(), true) << "the id is free again";
    EXPECT_EQ(b.submit(1, prompt, 5).error().code, errc::conflict);
}

TEST(Policy, StateIsJson) {
    policy_bench b(settings(1));
    EXPECT_NE(state_json(b.policy, b.now).find("\"executor_up\":false"), std::string::npos);
    b.up();
    ASSERT_TRUE(b.submit(1, tokens_from(100, 40), 20).ok());
    ASSERT_TRUE(b.submit(2, tokens_from(100, 40), 20).ok());
    b.run_until_tokens(1, 3);
    const auto text = state_json(b.policy, b.now);
    for (const char* part : {"\"state\":\"decode\"", "\"segments\":{", "\"queue\":[{", "\"epoch\":1", "\"counters\":{"})
        EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
}

}  // namespace
}  // namespace troupe::actors
