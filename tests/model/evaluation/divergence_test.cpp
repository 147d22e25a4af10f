// Scores of single positions against sums done by hand, and estimates against Python's statistics module.
#include "model/evaluation/divergence.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace troupe::model::testing {
namespace {

TEST(divergence, likelihood_of_the_next_token) {
    const float logits[] = {1, 2, 3};
    const double sum = std::exp(1.0) + std::exp(2.0) + std::exp(3.0);
    EXPECT_NEAR(negative_log_likelihood(logits, 1), std::log(sum) - 2, 1e-7);
    const float huge[] = {3e38f, 0, -3e38f};
    EXPECT_EQ(negative_log_likelihood(huge, 0), 0);
}

TEST(divergence, a_logit_that_is_no_number_shows_in_the_score) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
        for (std::size_t at = 0; at < 3; ++at) {
            float logits[] = {1, 2, 3};
            logits[at] = bad;
            EXPECT_FALSE(std::isfinite(negative_log_likelihood(logits, 1))) << at;
        }
}

TEST(divergence, of_a_position_from_its_base) {
    const float base[] = {0, 1, 3, -40}, other[] = {0.5, 1, 2, -40};
    std::uint16_t row[8];
    pack_log_probabilities(base, row);
    const auto s = score_position(other, packed_row(row), 1);
    const double lp = std::log(1 + std::exp(1.0) + std::exp(3.0)),
                 lq = std::log(std::exp(0.5) + std::exp(1.0) + std::exp(2.0));
    double kld = 0;
    for (int i = 0; i < 3; ++i) kld += std::exp(base[i] - lp) * ((base[i] - lp) - (other[i] - lq));
    constexpr double step = 16.0 / 65535;  // of the file; half of it is the most a value can be off
    EXPECT_NEAR(s.kld, kld, step);
    EXPECT_NEAR(s.nll, lq - 1, 1e-6);
    EXPECT_NEAR(s.nll_base, lp - 1, step);
    EXPECT_NEAR(s.p_diff, std::exp(1 - lq) - std::exp(1 - lp), step);
    EXPECT_TRUE(s.same_top);
    const float turned[] = {4, 1, 2, 0};
    EXPECT_FALSE(score_position(turned, packed_row(row), 1).same_top);
}

TEST(divergence, estimates_and_their_errors) {
    // Means, errors and covariance of these two series as Python computes them in double.
    divergence d;
    for (int i = 0; i < 12; ++i)
        d.add({.nll = 2 + 0.1 * i,
            .nll_base = 2 + 0.1 * i * (i % 2 ? 0.9 : 1.0),
            .kld = 0.01 * i,
            .p_diff = i % 2 ? 0.02 : -0.01,
            .same_top = i % 4 != 0});
    EXPECT_EQ(d.count(), 12u);
    EXPECT_NEAR(std::log(d.perplexity_model().value), 2.55, 1e-12);
    EXPECT_NEAR(d.perplexity_model().error / d.perplexity_model().value, 0.10408329997330664, 1e-9);
    EXPECT_NEAR(std::log(d.perplexity_base().value), 2.52, 1e-12);
    EXPECT_NEAR(d.log_ratio().value, 0.03, 1e-12);
    EXPECT_NEAR(d.log_ratio().error, 0.011612428034145033, 1e-9);
    EXPECT_NEAR(d.ratio().value, std::exp(0.03), 1e-12);
    EXPECT_NEAR(d.difference().value, std::exp(2.55) - std::exp(2.52), 1e-9);
    EXPECT_NEAR(d.kld().value, 0.055, 1e-12);
    EXPECT_NEAR(d.p_diff().value, 0.005, 1e-12);
    EXPECT_NEAR(d.p_diff_rms().value, std::sqrt(0.00025), 1e-12);
    EXPECT_NEAR(d.same_top().value, 0.75, 1e-12);
    EXPECT_NEAR(d.same_top().error, std::sqrt(0.75 * 0.25 / 11), 1e-12);
    EXPECT_GT(d.correlation(), 0.98);
    EXPECT_LE(d.correlation(), 1 + 1e-9);
}

TEST(divergence, nothing_and_little_give_no_error_instead_of_nan) {
    divergence d;
    EXPECT_EQ(d.kld().value, 0);
    d.add({.nll = 1, .nll_base = 1});
    EXPECT_EQ(d.perplexity_model().error, 0);
    EXPECT_EQ(d.log_ratio().error, 0);
    EXPECT_EQ(d.correlation(), 0);
    EXPECT_EQ(d.p_diff_rms().error, 0);
    EXPECT_EQ(d.same_top().error, 0);
}

TEST(divergence, percentiles_lie_between_neighbours) {
    const double values[] = {0, 1, 4};
    EXPECT_EQ(percentile(values, 0), 0);
    EXPECT_EQ(percentile(values, 0.25), 0.5);
    EXPECT_EQ(percentile(values, 0.5), 1);
    EXPECT_EQ(percentile(values, 1), 4);
}

}  // namespace
}  // namespace troupe::model::testing
