// The scheduler's policy under pressure: prefix cache, time budget, short memory, deaths of the executor.
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

// ---- the prefix cache

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
    EXPECT_LE(b.policy.counters().prompt_tokens, 160u + 4 * 16)
        << "the last block by copy where a free block was at hand";
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

// ---- time

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
    EXPECT_LT(steps, 2000 / 3) << "yet the prompt gets on";
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

// ---- memory

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
    b.policy.give_back({steady_time::max(), 0}, b.now);
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

TEST(Policy, SegmentsGoBackWhileAStreamRunsOnAndItsTextStays) {
    for (const auto& layout : {full_layout(8), windowed_layout(32, 8)}) {
        policy_bench b(settings(12), layout, 64);
        b.up();
        // Blocks of the long stream lie between those of the burst.
        ASSERT_TRUE(b.submit(1, tokens_from(100, 20), 380).ok());
        b.run_until_tokens(1, 1);
        for (generation_id id = 2; id < 12; ++id)
            ASSERT_TRUE(b.submit(id, tokens_from(static_cast<token_id>(60 * id), 60), 70).ok());
        b.run_until_tokens(1, 120);
        const auto full = b.policy.usage();
        ASSERT_GT(full.segments_committed, full.segments_needed / 2);
        b.policy.give_back({steady_time::max(), 0}, b.now);
        b.run_until_tokens(1, 160);
        const auto after = b.policy.usage();
        EXPECT_LE(after.segments_committed, after.segments_needed + 1);
        EXPECT_EQ(static_cast<std::int64_t>(b.executor->committed_segments()), after.segments_committed);
        EXPECT_LT(after.segments_committed, full.segments_committed / 2);
        EXPECT_GT(b.policy.counters().blocks_moved, 0u);
        b.run();
        EXPECT_EQ(b.got[1], answer_of(tokens_from(100, 20), 380));
    }
}

TEST(Policy, OneRequestGetsNineTenthsOfMemoryThatIsFreeInPieces) {
    for (const auto& layout : {full_layout(8), windowed_layout(32, 8)}) {
        policy_bench b(settings(40), layout, 24, 4096);
        b.up();
        // Long and short ones take turns; then every second one ends.
        generation_id id = 1;
        for (; id <= 16; ++id)
            ASSERT_TRUE(b.submit(id, tokens_from(static_cast<token_id>(50 * id), id % 4 < 2 ? 100 : 12), 400).ok());
        b.run_until_tokens(16, 4);
        for (generation_id gone = 1; gone <= 16; gone += 2) b.policy.cancel(gone, b.now);
        b.run_until_tokens(16, 8);
        const auto& pool = b.policy.kv()->pool();
        const std::int64_t free = pool.counts(0).free + pool.counts(0).cached +
                                  pool.unallocated_segments() * pool.blocks_per_segment(0) / (layout.groups.size());
        const auto n = static_cast<int>(free * 9 / 10 * model::block_tokens) - 8;
        ASSERT_GT(n, 600);
        std::vector<token_id> prompt;
        for (int i = 0; i < n; ++i) prompt.push_back(10 + (i * 7 + i / 900) % 900);
        ASSERT_TRUE(b.submit(99, prompt, 4).ok());
        b.run_until_tokens(99, 4);
        EXPECT_EQ(b.got[99], answer_of(prompt, 4));
        EXPECT_EQ(b.policy.counters().preemptions, 0u) << "nobody had to give way";
        for (generation_id other = 2; other <= 16; other += 2) b.policy.cancel(other, b.now);
        b.run();
        b.policy.check();
    }
}

TEST(Policy, WhicheverCommitFailsEveryAnswerIsWhole) {
    for (int n = 1; n <= 12; ++n) {
        policy_bench b(settings(4), windowed_layout(32), 24);
        b.up();
        b.executor->fail_commit_number(n);
        for (generation_id id = 1; id <= 4; ++id)
            ASSERT_TRUE(b.submit(id, tokens_from(static_cast<token_id>(90 * id), 90), 60).ok());
        for (int round = 0; round < 50 && !b.policy.idle(); ++round) {
            b.run();
            if (const auto at = b.policy.wakeup(b.now)) b.now = std::max(b.now, *at);
        }
        for (generation_id id = 1; id <= 4; ++id)
            EXPECT_EQ(b.got[id], answer_of(tokens_from(static_cast<token_id>(90 * id), 90), 60)) << "commit " << n;
        EXPECT_EQ(b.policy.counters().commits_failed, 1u);
    }
}

TEST(Policy, UnderPressureFromOutsideNewWorkIsRefusedAndOldWorkGoesOn) {
    policy_bench b(settings());
    b.up();
    ASSERT_TRUE(b.submit(1, tokens_from(100, 20), 30).ok());
    b.run_until_tokens(1, 3);
    b.policy.pressed({true, 50u << 20});
    const auto refused = b.submit(2, tokens_from(300, 20), 5);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, errc::out_of_memory);
    EXPECT_GT(refused.error().retry_after_ms, 0);
    generation_request resumed;
    resumed.id = 3;
    resumed.client_key = "a";
    resumed.prompt = std::make_shared<const std::vector<token_id>>(tokens_from(500, 20));
    resumed.accepted = answer_of(tokens_from(500, 20), 4);
    b.got[3] = resumed.accepted;
    resumed.params.max_tokens = 8;
    EXPECT_TRUE(b.submit(std::move(resumed)).ok()) << "what was begun before a restart is no new work";
    generation_request queued;  // it was taken, but had no token yet
    queued.id = 5;
    queued.client_key = "a";
    queued.resumed = true;
    queued.prompt = std::make_shared<const std::vector<token_id>>(tokens_from(600, 20));
    queued.params.max_tokens = 2;
    EXPECT_TRUE(b.submit(std::move(queued)).ok());
    b.run();
    EXPECT_EQ(b.got[1], answer_of(tokens_from(100, 20), 30));
    b.policy.pressed({});
    EXPECT_TRUE(b.submit(4, tokens_from(300, 20), 5).ok());
    b.run();
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

// ---- faults

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
    std::map<generation_id, std::vector<token_id>> prompts{
        {1, tokens_from(300, 50)}, {2, poison}, {3, tokens_from(500, 70)}, {4, tokens_from(700, 20)}};
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

TEST(Policy, APoisonThatMakesATokenInEachLifeIsFoundToo) {
    policy_bench b(settings(8));
    b.up();
    const auto prompt = tokens_from(300, 50);
    ASSERT_TRUE(b.submit(1, prompt, 30).ok());
    ASSERT_TRUE(b.submit(2, tokens_from(100, 60), 30).ok());
    int deaths = 0, steps_of_2 = 0;
    for (b.send(); !b.policy.idle() && deaths < 20; b.send()) {
        ASSERT_FALSE(b.sent.empty());
        const plan next = b.sent.front();
        const bool in_it = std::any_of(next.rows.begin(), next.rows.end(), [&](const plan_row& r) {
            return b.policy.entries().contains(2) && r.seq == b.policy.entries().at(2)->seq;
        });
        if (in_it && ++steps_of_2 % 2 == 0) {  // every second step that computes it kills
            ++deaths;
            b.down("crash", next.id);
            b.up();
            continue;
        }
        b.step();
    }
    EXPECT_LE(deaths, 5);
    EXPECT_EQ(b.end(2).err.code, errc::executor_poisoned);
    EXPECT_EQ(b.got[1], answer_of(prompt, 30));
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
