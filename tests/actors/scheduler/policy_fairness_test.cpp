// Bounded interference in virtual time: what scripts/fairness measures on a real model, exactly.
#include <algorithm>

#include "actors/scheduler/policy.hpp"
#include "policy_bench.hpp"

namespace troupe::actors {
namespace {

using test::full_layout;
using test::policy_bench;
using test::settings;
using test::tokens_from;
using namespace std::chrono_literals;

/// A bench whose steps take time as on a real machine, with the gaps between each stream's tokens.
struct timed_bench : policy_bench {
    timed_bench(int seqs, std::uint64_t segments, std::int32_t n_ctx)
        : policy_bench(settings(seqs), full_layout(), segments, n_ctx) {
        up();
    }
    double cost_ms(const plan& p) {
        double ms = 8;
        for (const plan_row& r : p.rows)
            ms += r.n == 1 ? 2 + 0.0002 * r.pos : r.n * (0.8 + 0.00005 * (r.pos + r.n / 2.0));
        return ms * std::uniform_real_distribution<>(0.9, 1.1)(random);
    }
    void one_step() {
        send();
        ASSERT_FALSE(sent.empty());
        step(cost_ms(sent.front()));
        for (auto& [id, tokens] : got) {
            auto& at = times[id];
            while (at.size() < tokens.size()) at.push_back(now);
        }
    }
    std::vector<double> gaps(generation_id id, steady_time begin, steady_time end) const {
        std::vector<double> g;
        const auto& at = times.at(id);
        for (std::size_t i = 1; i < at.size(); ++i)
            if (at[i - 1] >= begin && at[i] <= end) g.push_back(to_ms(at[i] - at[i - 1]));
        std::sort(g.begin(), g.end());
        return g;
    }
    std::map<generation_id, std::vector<steady_time>> times;
};

TEST(PolicyFairness, ALongPromptHardlySlowsStreamsDown) {
    timed_bench b(8, 1000, 24'000);
    for (generation_id id = 1; id <= 3; ++id)
        ASSERT_TRUE(b.submit(id, tokens_from(static_cast<token_id>(100 * id), 40), 20'000, std::to_string(id)).ok());
    for (int i = 0; i < 300; ++i) b.one_step();
    const steady_time asked = b.now;
    std::vector<token_id> prompt;
    for (int i = 0; i < 20'000; ++i) prompt.push_back(10 + (i * 7 + i / 900) % 900);
    ASSERT_TRUE(b.submit(9, prompt, 1, "long").ok());
    int steps = 0;
    while (b.got[9].empty() && ++steps < 20'000) b.one_step();
    ASSERT_EQ(b.got[9], sim::answer_of(prompt, 1, false));
    std::vector<double> alone, beside;
    for (generation_id id = 1; id <= 3; ++id) {
        const auto before = b.gaps(id, steady_time{}, asked), then = b.gaps(id, asked, b.now);
        alone.insert(alone.end(), before.begin(), before.end());
        beside.insert(beside.end(), then.begin(), then.end());
    }
    std::sort(alone.begin(), alone.end());
    std::sort(beside.begin(), beside.end());
    ASSERT_GT(beside.size(), 1000u);
    const double median = alone[alone.size() / 2];
    EXPECT_LE(beside[beside.size() * 99 / 100], 3 * median);
    EXPECT_LE(beside.back(), 4 * median);
    EXPECT_GE(beside[beside.size() / 2], 1.4 * median) << "and the prompt does get on";
}

TEST(PolicyFairness, ABusyClientDelaysAnotherByNoMoreThanWhatRuns) {
    for (int when = 0; when < 60; when += 3) {
        timed_bench b(2, 64, 512);
        for (generation_id id = 1; id <= 50; ++id)
            ASSERT_TRUE(b.submit(id, tokens_from(static_cast<token_id>(17 * id), 50), 12, "busy").ok());
        for (int i = 0; i < when; ++i) b.one_step();
        const auto begun = [&] {
            std::int64_t n = 0;
            for (generation_id id = 1; id <= 50; ++id) n += !b.all<prompt_progress>(id).empty();
            return n;
        };
        b.send();
        const auto before = begun();
        ASSERT_TRUE(b.submit(99, tokens_from(5, 50), 4, "single").ok());
        for (int steps = 0; b.all<prompt_progress>(99).empty() && steps < 500; ++steps) b.one_step();
        // Started by one plan, whoever is told first.
        EXPECT_LE(begun() - before, 1) << "after " << when << " steps";
        EXPECT_FALSE(b.all<prompt_progress>(99).empty());
    }
}

TEST(PolicyFairness, SessionsOfOneClientTakeTurns) {
    timed_bench b(1, 64, 512);
    const auto ask = [&](generation_id id, const std::string& session) {
        generation_request r;
        r.id = id;
        r.client_key = "key";
        r.session = session;
        r.prompt = std::make_shared<const std::vector<token_id>>(tokens_from(static_cast<token_id>(31 * id), 30));
        r.params.max_tokens = 4;
        ASSERT_TRUE(b.submit(std::move(r)).ok());
    };
    for (generation_id id = 1; id <= 20; ++id) ask(id, "greedy");
    b.run_until_tokens(2, 1);
    ask(21, "other");
    const auto order = b.policy.queue_order(b.now);
    EXPECT_EQ(order.front()->request.id, 21u);
    b.run();
}

TEST(PolicyFairness, NewcomersWithoutEndDoNotKeepAnyoneOut) {
    timed_bench b(1, 64, 512);
    // It was served much, then others come and come, each a client of its own that was served nothing yet.
    ASSERT_TRUE(b.submit(1, tokens_from(100, 400), 60, "old").ok());
    ASSERT_TRUE(b.submit(2, tokens_from(600, 30), 4, "first").ok());
    while (b.all<generation_finished>(1).empty()) b.one_step();
    ASSERT_TRUE(b.submit(3, tokens_from(300, 30), 4, "old").ok());
    generation_id next = 10;
    int steps = 0;
    for (; b.all<generation_finished>(3).empty() && steps < 3000; ++steps) {
        if (b.policy.n_waiting() < 3) {
            const auto prompt = tokens_from(static_cast<token_id>(next % 800), 30);
            ASSERT_TRUE(b.submit(next, prompt, 4, "new" + std::to_string(next)).ok());
        }
        ++next;
        b.one_step();
    }
    EXPECT_LT(steps, 3000);
}

}  // namespace
}  // namespace troupe::actors
