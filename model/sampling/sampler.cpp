// The sampling chain in mainline's order and the draw at its end.
#include "model/sampling/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/check.hpp"
#include "model/sampling/chain.hpp"

namespace troupe::model {

namespace {

/// Sampling parameters that leave only the best candidate need no candidate list at all.
bool greedy(const sampling_params& params) { return params.temperature <= 0 || params.top_k == 1; }

bool has_penalties(const sampling_params& params) {
    return params.penalty_last_n != 0 &&
           (params.repeat_penalty != 1 || params.frequency_penalty != 0 || params.presence_penalty != 0);
}

}  // namespace

sampler::sampler(std::int32_t n_vocab) {
    CHECK(n_vocab > 0);
    const auto n = static_cast<std::size_t>(n_vocab);
    candidates_.reserve(n);
    probabilities_.reserve(n);
    adjusted_.resize(n);
    counts_.resize(n);
}

void sampler::penalize(const sampling_params& params, std::span<const token_id> history) {
    std::span<const token_id> window = history;
    if (params.penalty_last_n > 0 && history.size() > static_cast<std::size_t>(params.penalty_last_n)) {
        window = history.last(static_cast<std::size_t>(params.penalty_last_n));
    }
    const auto in_range = [&](token_id id) { return id >= 0 && static_cast<std::size_t>(id) < counts_.size(); };
    for (const token_id id : window) {
        if (in_range(id)) ++counts_[static_cast<std::size_t>(id)];
    }
    for (const token_id id : window) {
        if (!in_range(id)) continue;
        const auto i = static_cast<std::size_t>(id);
        if (counts_[i] == 0) continue;  // already done
        const auto count = static_cast<float>(std::exchange(counts_[i], 0));
        float& logit = adjusted_[i];
        if (!(logit > -std::numeric_limits<float>::infinity())) continue;
        logit = logit <= 0 ? logit * params.repeat_penalty : logit / params.repeat_penalty;
        logit -= count * params.frequency_penalty + params.presence_penalty;
    }
}

std::span<const float> sampler::adjust(
    std::span<const float> logits, const sampling_params& params, std::span<const token_id> history) {
    CHECK(logits.size() == adjusted_.size(), "one logit a token");
    if (params.logit_bias.empty() && !has_penalties(params)) return logits;
    std::copy(logits.begin(), logits.end(), adjusted_.begin());
    for (const auto& [id, bias] : params.logit_bias) {
        if (id >= 0 && static_cast<std::size_t>(id) < adjusted_.size()) adjusted_[static_cast<std::size_t>(id)] += bias;
    }
    if (has_penalties(params)) penalize(params, history);
    return adjusted_;
}

void sampler::apply(std::span<const float> logits, const sampling_params& params, std::span<const token_id> history) {
    const auto adjusted = adjust(logits, params, history);
    if (greedy(params)) {
        const token_id best = chain::argmax(adjusted);
        candidates_.assign(1, {best, adjusted[static_cast<std::size_t>(best)]});
        if (!(candidates_[0].logit > -std::numeric_limits<float>::infinity())) candidates_.clear();
        return;
    }
    const bool cut = params.top_k > 0 && static_cast<std::size_t>(params.top_k) < adjusted.size();
    if (cut) {
        chain::best_k(adjusted, params.top_k, candidates_);
    } else {
        chain::all(adjusted, candidates_);
    }
    if (params.top_p < 1) chain::top_p(candidates_, params.top_p, cut, probabilities_);
    if (params.min_p > 0) chain::min_p(candidates_, params.min_p);
    if (params.temperature != 1) chain::temperature(candidates_, params.temperature);
}

token_id sampler::draw(float u) {
    const double target = static_cast<double>(u) * chain::softmax_weights(candidates_, probabilities_);
    double reached = 0;
    std::size_t last = 0;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
        if (!(probabilities_[i] > 0)) continue;
        last = i;
        reached += probabilities_[i];
        if (reached > target) break;
    }
    return candidates_[last].id;
}

void sampler::add_logprobs(std::span<const float> logits, std::int32_t n, sampled_token& token) {
    const float best = logits[static_cast<std::size_t>(chain::argmax(logits))];
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit - best);
    const double log_sum = std::log(sum) + best;
    const auto logprob = [&](float logit) { return static_cast<float>(logit - log_sum); };
    token.logprob = logprob(logits[static_cast<std::size_t>(token.id)]);
    if (n <= 0) return;
    chain::best_k(logits, n, candidates_);
    token.top.reserve(candidates_.size());
    for (const auto& c : candidates_) token.top.push_back({c.id, logprob(c.logit)});
}

sampled_token sampler::sample(std::span<const float> logits, const sampling_params& params,
    std::span<const token_id> history, std::int64_t position) {
    apply(logits, params, history);
    sampled_token token;
    if (candidates_.empty()) {
        token.id = chain::argmax(logits);
    } else if (candidates_.size() == 1) {
        token.id = candidates_[0].id;
    } else {
        token.id = draw(
            uniform(params.seed, static_cast<std::uint32_t>(params.choice), static_cast<std::uint64_t>(position), 0));
    }
    if (params.n_logprobs >= 0) add_logprobs(logits, params.n_logprobs, token);
    return token;
}

std::vector<std::pair<token_id, float>> sampler::distribution(
    std::span<const float> logits, const sampling_params& params, std::span<const token_id> history) {
    apply(logits, params, history);
    std::sort(candidates_.begin(), candidates_.end(), chain::before);
    const double sum = chain::softmax_weights(candidates_, probabilities_);
    std::vector<std::pair<token_id, float>> out;
    out.reserve(candidates_.size());
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
        const auto probability = static_cast<float>(probabilities_[i] / sum);
        if (probability > 0) out.emplace_back(candidates_[i].id, probability);
    }
    return out;
}

}  // namespace troupe::model
