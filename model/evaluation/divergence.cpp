#include "model/evaluation/divergence.hpp"

#include <algorithm>
#include <cmath>

#include "core/check.hpp"

namespace troupe::model {
namespace {

constexpr float least_log_probability = -16;
constexpr std::size_t fewest = 10;  ///< positions an error of the comparison is told from

/// ln of the sum of e^logit.
double log_sum_exp(std::span<const float> logits, float best) {
    double sum = 0;
    for (const float z : logits) sum += std::exp(z - best);
    return best + std::log(sum);
}

estimate exponential(const estimate& log) {
    const double value = std::exp(log.value);
    return {value, value * log.error};
}

double positive_root(double v) { return v > 0 ? std::sqrt(v) : 0; }

std::vector<double> sorted(const std::vector<position_score>& scores, double position_score::*field) {
    std::vector<double> values;
    values.reserve(scores.size());
    for (const auto& s : scores) values.push_back(s.*field);
    std::sort(values.begin(), values.end());
    return values;
}

}  // namespace

double negative_log_likelihood(std::span<const float> logits, token_id next) {
    const float best = *std::max_element(logits.begin(), logits.end());
    return log_sum_exp(logits, best) - logits[static_cast<std::size_t>(next)];
}

position_score score_position(std::span<const float> logits, packed_row base, token_id next) {
    const auto top = std::max_element(logits.begin(), logits.end());
    const double log_sum = log_sum_exp(logits, *top);
    const auto token = static_cast<std::size_t>(next);
    position_score s;
    s.nll = log_sum - logits[token];
    s.nll_base = -base.log_probability(token);
    std::size_t top_base = 0;
    float best = base.log_probability(0);
    for (std::size_t i = 0; i < logits.size(); ++i) {
        const float p_log = base.log_probability(i);
        if (p_log > best) {
            best = p_log;
            top_base = i;
        }
        if (p_log > least_log_probability) s.kld += std::exp(p_log) * (p_log - (logits[i] - log_sum));
    }
    s.p_diff = std::exp(-s.nll) - std::exp(-s.nll_base);
    s.same_top = static_cast<std::size_t>(top - logits.begin()) == top_base;
    return s;
}

estimate mean_of::mean() const {
    if (n_ == 0) return {};
    const auto n = static_cast<double>(n_);
    const double mean = sum_ / n;
    return {mean, n_ > 1 ? positive_root((squares_ / n - mean * mean) / (n - 1)) : 0};
}

estimate perplexity(const mean_of& nll) { return exponential(nll.mean()); }

void divergence::add(const position_score& s) {
    scores_.push_back(s);
    nll_.add(s.nll);
    nll_base_.add(s.nll_base);
    kld_.add(s.kld);
    p_diff_.add(s.p_diff);
    p_diff_squared_.add(s.p_diff * s.p_diff);
    products_ += s.nll * s.nll_base;
    n_same_top_ += s.same_top ? 1 : 0;
}

double divergence::covariance() const {
    if (count() < fewest) return 0;
    const auto n = static_cast<double>(count());
    return (products_ / n - nll_.mean().value * nll_base_.mean().value) / (n - 1);
}

double divergence::correlation() const {
    const double errors = nll_.mean().error * nll_base_.mean().error;
    return errors > 0 ? covariance() / errors : 0;
}

estimate divergence::log_ratio() const {
    const auto a = nll_.mean(), b = nll_base_.mean();
    return {a.value - b.value, positive_root(a.error * a.error + b.error * b.error - 2 * covariance())};
}

estimate divergence::ratio() const { return exponential(log_ratio()); }

estimate divergence::difference() const {
    const auto a = perplexity_model(), b = perplexity_base();
    return {
        a.value - b.value, positive_root(a.error * a.error + b.error * b.error - 2 * a.value * b.value * covariance())};
}

estimate divergence::p_diff_rms() const {
    const auto squares = p_diff_squared_.mean();
    const double rms = positive_root(squares.value);
    return {rms, rms > 0 ? squares.error / (2 * rms) : 0};
}

estimate divergence::same_top() const {
    if (count() == 0) return {};
    const double share = static_cast<double>(n_same_top_) / static_cast<double>(count());
    return {share, count() > 1 ? positive_root(share * (1 - share) / static_cast<double>(count() - 1)) : 0};
}

std::vector<double> divergence::sorted_kld() const { return sorted(scores_, &position_score::kld); }
std::vector<double> divergence::sorted_p_diff() const { return sorted(scores_, &position_score::p_diff); }

double percentile(std::span<const double> values, double fraction) {
    CHECK(!values.empty());
    const double at = std::clamp(fraction, 0.0, 1.0) * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(at);
    const double share = at - static_cast<double>(below);
    return (1 - share) * values[below] + share * values[std::min(below + 1, values.size() - 1)];
}

}  // namespace troupe::model
