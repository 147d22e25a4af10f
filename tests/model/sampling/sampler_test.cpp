// The sampling chain against golden distributions (tests/data/sampling/chains.json: float64 references of every chain
// the parameters can express), and the properties of the draw.
#include "model/sampling/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <sstream>

#include <boost/json.hpp>

namespace troupe::model {
namespace {

namespace json = boost::json;
constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

json::object load_goldens() {
    const char* root = std::getenv("TROUPE_SOURCE_DIR");
    std::ifstream in(std::string(root != nullptr ? root : "") + "/tests/data/sampling/chains.json");
    std::stringstream text;
    text << in.rdbuf();
    return json::parse(text.str()).as_object();
}

sampling_params neutral() {
    sampling_params p;
    p.temperature = 1;
    p.top_k = 0;
    p.top_p = 1;
    p.min_p = 0;
    return p;
}

float number(const json::value& v) { return v.is_string() ? minus_infinity : v.to_number<float>(); }

sampling_params params_of(const json::array& steps) {
    sampling_params p = neutral();
    for (const auto& value : steps) {
        const auto& step = value.as_object();
        const std::string name(step.at("sampler").as_string());
        if (name == "temperature") p.temperature = number(step.at("t"));
        if (name == "top_k") p.top_k = step.at("k").to_number<std::int32_t>();
        if (name == "top_p") p.top_p = number(step.at("p"));
        if (name == "min_p") p.min_p = number(step.at("p"));
        if (name == "penalties") {
            p.penalty_last_n = step.at("last_n").to_number<std::int32_t>();
            p.repeat_penalty = number(step.at("repeat"));
            p.frequency_penalty = number(step.at("freq"));
            p.presence_penalty = number(step.at("present"));
        }
        if (name == "logit_bias") {
            for (const auto& [id, bias] : step.at("bias").as_object()) {
                p.logit_bias.emplace_back(std::stoi(std::string(id)), number(bias));
            }
        }
    }
    return p;
}

std::vector<float> vector_of(const json::object& goldens, std::string_view name) {
    std::vector<float> out;
    const float scale = goldens.at("scale").to_number<float>();
    for (const auto& v : goldens.at("vectors").at(name).as_array()) {
        out.push_back(v.is_null() ? minus_infinity : v.to_number<float>() / scale);
    }
    return out;
}

using distribution = std::vector<std::pair<token_id, float>>;

/// Golden probabilities are of float64; a float32 engine is allowed 2e-5 (the goldens' README). Which ids survive must
/// be exact (lowest ids at a tied cut, which is this engine's rule too); two that differ by a rounding may swap places.
void expect_same(const distribution& got, const json::object& want, const std::string& what) {
    const auto& ids = want.at("ids").as_array();
    const auto& probabilities = want.at("p").as_array();
    std::map<token_id, double> by_id;
    std::size_t visible = 0;  // in float32
    for (std::size_t i = 0; i < ids.size(); ++i) {
        by_id[ids[i].to_number<token_id>()] = probabilities[i].to_number<double>();
        visible += probabilities[i].to_number<double>() > 1e-30 ? 1 : 0;
    }
    ASSERT_GE(got.size(), visible) << what;
    ASSERT_LE(got.size(), ids.size()) << what;
    for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(by_id.count(got[i].first), 1u) << what << " keeps " << got[i].first;
        EXPECT_NEAR(got[i].second, by_id[got[i].first], 2e-5) << what << " at " << i;
        EXPECT_NEAR(got[i].second, probabilities[i].to_number<double>(), 2e-5) << what << " at " << i;
    }
}

TEST(sampler, matches_the_golden_distributions) {
    const json::object goldens = load_goldens();
    sampler s(goldens.at("n_vocab").to_number<std::int32_t>());
    std::map<std::string, const json::object*> plain;
    std::size_t compared = 0;
    for (const auto& value : goldens.at("cases").as_array()) {
        const auto& c = value.as_object();
        const std::string vector(c.at("v").as_string()), chain(c.at("c").as_string());
        if (chain == "plain") plain[vector] = &c;
        if (c.contains("boundary")) continue;  // within 2e-6 of a threshold: float32 may fall on either side
        const auto& description = goldens.at("chains").at(chain);
        std::vector<token_id> history;
        for (const auto& id : description.at("history").as_array()) history.push_back(id.to_number<token_id>());
        const auto got =
            s.distribution(vector_of(goldens, vector), params_of(description.at("steps").as_array()), history);
        expect_same(got, c.contains("same_as") ? *plain.at(vector) : c, vector + "/" + chain);
        ++compared;
    }
    EXPECT_GE(compared, 1000u);
}

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

}  // namespace
}  // namespace troupe::model
