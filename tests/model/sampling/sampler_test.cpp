// Properties of the sampler: the draw, truncation of large vocabularies, ties, extremes, log-probabilities. What the
// chain keeps is compared with goldens in golden_test.cpp.
#include "model/sampling/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "tests/model/sampling/neutral.hpp"

namespace troupe::model {
namespace {

TEST(sampler, draws_with_the_frequencies_of_the_distribution) {
    const std::vector<float> logits = {1.0f, 2.0f, 0.5f, minus_infinity, 3.0f};
    sampler s(5);
    sampling_params p = neutral();
    p.temperature = 0.8f;
    const auto want = s.distribution(logits, p, {});
    std::map<token_id, int> counts;
    constexpr int n = 20'000;
    for (int i = 0; i < n; ++i) ++counts[s.sample(logits, p, {}, i).id];
    double chi_square = 0;
    for (const auto& [id, probability] : want) {
        const double expected = probability * n;
        chi_square += (counts[id] - expected) * (counts[id] - expected) / expected;
    }
    EXPECT_LT(chi_square, 16.3);  // 3 degrees of freedom, p = 0.001
    EXPECT_EQ(counts.count(3), 0u);
}

std::vector<float> random_logits(std::size_t n, unsigned seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal(0, 3);
    std::vector<float> logits(n);
    for (float& l : logits) l = normal(generator);
    return logits;
}

TEST(sampler, draw_depends_only_on_seed_choice_and_position) {
    const auto logits = random_logits(1000, 1);
    sampling_params p = neutral();
    p.seed = 42;
    sampler fresh(1000), used(1000);
    std::vector<token_id> forward;
    for (int position = 0; position < 50; ++position) forward.push_back(fresh.sample(logits, p, {}, position).id);
    for (int position = 49; position >= 0; --position) {
        (void)used.sample(random_logits(1000, 99), p, {}, position + 7);
        EXPECT_EQ(used.sample(logits, p, {}, position).id, forward[static_cast<std::size_t>(position)]);
    }
    int same_other_choice = 0, same_other_seed = 0;
    sampling_params choice = p, seed = p;
    choice.choice = 1;
    seed.seed = 43;
    for (int position = 0; position < 50; ++position) {
        same_other_choice +=
            used.sample(logits, choice, {}, position).id == forward[static_cast<std::size_t>(position)];
        same_other_seed += used.sample(logits, seed, {}, position).id == forward[static_cast<std::size_t>(position)];
    }
    EXPECT_LT(same_other_choice, 40);
    EXPECT_LT(same_other_seed, 40);
}

TEST(sampler, truncations_agree_with_full_sorting_on_a_large_vocabulary) {
    constexpr std::size_t n = 50'021;  // not a multiple of the scan's block
    auto logits = random_logits(n, 3);
    for (float& l : logits) l = std::round(l * 8) / 8;  // many ties
    sampler s(static_cast<std::int32_t>(n));
    std::vector<token_id> order(n);
    for (std::size_t i = 0; i < n; ++i) order[i] = static_cast<token_id>(i);
    std::stable_sort(order.begin(), order.end(), [&](token_id a, token_id b) { return logits[a] > logits[b]; });
    for (const int k : {1, 2, 40, 1000, 50'020}) {
        sampling_params p = neutral();
        p.top_k = k;
        const auto got = s.distribution(logits, p, {});
        ASSERT_EQ(got.size(), static_cast<std::size_t>(k));
        for (int i = 0; i < k; ++i) ASSERT_EQ(got[i].first, order[i]) << "k " << k << " at " << i;
    }
    double total = 0;
    for (const float l : logits) total += std::exp(static_cast<double>(l) - logits[order[0]]);
    for (const float top_p : {0.1f, 0.7f, 0.97f}) {
        sampling_params p = neutral();
        p.top_p = top_p;
        const auto got = s.distribution(logits, p, {});
        double reached = 0;
        std::size_t want = 0;
        while (reached < top_p)
            reached += std::exp(static_cast<double>(logits[order[want++]]) - logits[order[0]]) / total;
        EXPECT_NEAR(static_cast<double>(got.size()), static_cast<double>(want), 1) << top_p;
        for (std::size_t i = 0; i < std::min(got.size(), want); ++i) ASSERT_EQ(got[i].first, order[i]);
    }
}

TEST(sampler, greedy_takes_the_lowest_id_of_equals_after_bias_and_penalties) {
    std::vector<float> logits(200, 0.0f);
    logits[150] = logits[70] = logits[199] = 5.0f;
    sampler s(200);
    sampling_params p;
    p.temperature = 0;
    EXPECT_EQ(s.sample(logits, p, {}, 0).id, 70);
    p.logit_bias = {{70, minus_infinity}, {-5, 1.0f}, {200, 1.0f}};
    EXPECT_EQ(s.sample(logits, p, {}, 0).id, 150);
    p.repeat_penalty = 1.5f;
    const std::vector<token_id> history = {150, -1, 4000, 150};
    EXPECT_EQ(s.sample(logits, p, history, 0).id, 199);
    p.penalty_last_n = 1;
    EXPECT_EQ(s.sample(logits, p, std::vector<token_id>{150, 3}, 0).id, 150);
    p.penalty_last_n = -1;
    EXPECT_EQ(s.sample(logits, p, std::vector<token_id>{150, 3}, 0).id, 199);
}

TEST(sampler, default_parameters_keep_the_crossing_candidate_and_drop_the_tail) {
    sampler s(4);
    const std::vector<float> logits = {std::log(0.6f), std::log(0.36f), std::log(0.03f), std::log(0.01f)};
    const auto got = s.distribution(logits, sampling_params{}, {});
    ASSERT_EQ(got.size(), 2u);
    EXPECT_GT(got[0].second, 0.6f / 0.96f);  // temperature 0.8 sharpens, after the cuts
}

TEST(sampler, extreme_temperatures_and_bans_stay_finite) {
    sampler s(3);
    const std::vector<float> logits = {1e30f, -1e30f, 3.0f};
    sampling_params p = neutral();
    p.temperature = 1e-38f;
    EXPECT_EQ(s.sample(logits, p, {}, 5).id, 0);
    p.logit_bias = {{0, minus_infinity}, {1, minus_infinity}, {2, minus_infinity}};
    EXPECT_EQ(s.sample(logits, p, {}, 5).id, 0);
    EXPECT_TRUE(s.distribution(logits, p, {}).empty());
}

TEST(sampler, logprobs_are_of_the_raw_logits) {
    const std::vector<float> logits = {2.0f, 4.0f, 1.0f, 4.0f};
    double sum = 0;
    for (const float l : logits) sum += std::exp(static_cast<double>(l));
    sampler s(4);
    sampling_params p;
    p.temperature = 0;
    p.logit_bias = {{0, 100.0f}};
    p.n_logprobs = 3;
    const auto token = s.sample(logits, p, {}, 0);
    EXPECT_EQ(token.id, 0);
    EXPECT_NEAR(token.logprob, 2 - std::log(sum), 1e-6);
    ASSERT_EQ(token.top.size(), 3u);
    EXPECT_EQ(token.top[0].id, 1);
    EXPECT_EQ(token.top[1].id, 3);
    EXPECT_EQ(token.top[2].id, 0);
    EXPECT_NEAR(token.top[0].logprob, 4 - std::log(sum), 1e-6);
    p.n_logprobs = 0;
    EXPECT_TRUE(s.sample(logits, p, {}, 0).top.empty());
    p.n_logprobs = 100;
    EXPECT_EQ(s.sample(logits, p, {}, 0).top.size(), 4u);
}

TEST(sampler, post_sampling_logprobs_are_of_what_the_chain_left) {
    const std::vector<float> logits = {2.0f, 4.0f, 1.0f, 3.0f};
    sampler s(4);
    sampling_params p = neutral();
    p.top_k = 2;
    p.temperature = 0.5f;
    p.n_logprobs = 3;
    p.post_sampling_logprobs = true;
    for (int position = 0; position < 20; ++position) {
        const auto token = s.sample(logits, p, {}, position);
        ASSERT_EQ(token.top.size(), 2u);  // two are left, whatever is asked for
        EXPECT_EQ(token.top[0].id, 1);
        EXPECT_EQ(token.top[1].id, 3);
        EXPECT_NEAR(token.top[0].logprob, -std::log(1 + std::exp(-2.0)), 1e-6);
        EXPECT_NEAR(std::exp(token.top[0].logprob) + std::exp(token.top[1].logprob), 1, 1e-6);
        EXPECT_EQ(token.logprob, token.id == 1 ? token.top[0].logprob : token.top[1].logprob);
    }
    p.temperature = 0;
    const auto greedy = s.sample(logits, p, {}, 0);
    EXPECT_EQ(greedy.logprob, 0);
    EXPECT_EQ(greedy.top.size(), 1u);
}

TEST(sampler, greedy_takes_the_best_of_what_xtc_and_typical_leave) {
    const std::vector<float> logits = {3.0f, 2.9f, 2.8f, -5.0f};
    sampler s(4);
    sampling_params p = neutral();
    p.temperature = 0;
    p.xtc_probability = 1;
    p.xtc_threshold = 0.1f;
    EXPECT_EQ(s.sample(logits, p, {}, 0).id, 2);
    p.min_keep = 3;
    EXPECT_EQ(s.sample(logits, p, {}, 0).id, 0);
}

TEST(sampler, xtc_draws_anew_at_every_position) {
    const std::vector<float> logits = {3.0f, 2.9f};
    sampler s(2);
    sampling_params p = neutral();
    p.temperature = 0;
    p.xtc_probability = 0.3f;
    int hits = 0;
    constexpr int n = 2000;
    for (int position = 0; position < n; ++position) hits += s.sample(logits, p, {}, position).id == 1;
    EXPECT_NEAR(hits / static_cast<double>(n), 0.3, 0.05);  // 5 sigma
}

TEST(sampler, mirostat_reaches_the_wanted_surprise) {
    const auto logits = random_logits(2000, 5);
    sampler s(2000);
    sampling_params p = neutral();
    p.mirostat = 2;
    p.mirostat_tau = 3;
    float mu = p.first_mu();
    double surprise = 0;
    constexpr int n = 4000;
    for (int position = 0; position < n; ++position) {
        const auto token = s.sample(logits, p, {}, position, mu);
        surprise += (mu - token.mu) / p.mirostat_eta + p.mirostat_tau;
        mu = token.mu;
    }
    EXPECT_NEAR(surprise / n, 3, 0.1);
}

TEST(dry, ids_out_of_range_and_long_loops_are_harmless) {
    std::vector<float> logits(10, 0.0f);
    std::vector<std::int32_t> longest(10), overlap;
    dry_params p{.multiplier = 1, .base = 2, .allowed_length = 1, .last_n = -1, .breakers = {}};
    std::vector<token_id> history(3000, 4);
    history.push_back(-7);
    history.push_back(400);
    apply_dry(logits, p, history, longest, overlap);
    EXPECT_EQ(logits, std::vector<float>(10, 0.0f));
    history.resize(3000);
    apply_dry(logits, p, history, longest, overlap);
    EXPECT_LT(logits[4], -1e37f);  // the exponent is bounded: still a number
    EXPECT_GT(logits[4], minus_infinity);
    EXPECT_EQ(longest, std::vector<std::int32_t>(10, 0));
}

}  // namespace
}  // namespace troupe::model
