// The sampling chain in mainline's order and the draw at its end.
#include "model/sampling/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/check.hpp"
#include "model/sampling/chain.hpp"

namespace troupe::model {

namespace {

/// Numbers of the random draws for one token.
enum : std::uint32_t { token_draw = 0, xtc_draw_number = 1 };

/// Parameters that leave only the best candidate need no candidate list at all. Typical sampling and XTC may drop it.
bool greedy(const sampling_params& params) {
    return params.top_k == 1 || (params.temperature <= 0 && params.dynatemp_range <= 0 && params.typical_p >= 1 &&
                                    params.xtc_probability <= 0);
}

/// `from` where the mask allows it, else -inf, word by word of the mask.
void copy_allowed(std::span<const float> from, const token_mask& allowed, std::span<float> to) {
    constexpr float banned = -std::numeric_limits<float>::infinity();
    for (std::size_t begin = 0; begin < from.size(); begin += 64) {
        // A padded vocabulary has logits beyond the last token.
        const auto word = begin / 64 < allowed.words().size() ? allowed.words()[begin / 64] : 0;
        const std::size_t n = std::min<std::size_t>(64, from.size() - begin);
        if (word == 0) {
            std::fill_n(to.data() + begin, n, banned);
            continue;
        }
        for (std::size_t i = 0; i < n; ++i) to[begin + i] = (word >> i & 1) != 0 ? from[begin + i] : banned;
    }
}

bool has_penalties(const sampling_params& params) {
    return params.penalty_last_n != 0 &&
           (params.repeat_penalty != 1 || params.frequency_penalty != 0 || params.presence_penalty != 0);
}

}  // namespace

sampler::sampler(std::int32_t n_vocab)
    : list_(std::make_unique<chain::candidate_list>()), work_(std::make_unique<chain::workspace>()) {
    CHECK(n_vocab > 0);
    const auto n = static_cast<std::size_t>(n_vocab);
    list_->items.reserve(n);
    work_->weights.reserve(n);
    adjusted_.resize(n);
    counts_.resize(n);
}

sampler::~sampler() = default;
sampler::sampler(sampler&&) noexcept = default;

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

std::span<const float> sampler::adjust(std::span<const float> logits, const sampling_params& params,
    std::span<const token_id> history, const token_mask* allowed) {
    CHECK(logits.size() == adjusted_.size(), "one logit a token");
    const bool looks_back = params.mirostat == 0 && (has_penalties(params) || params.dry.active());
    if (params.logit_bias.empty() && !looks_back && allowed == nullptr) return logits;
    if (allowed != nullptr)
        copy_allowed(logits, *allowed, adjusted_);
    else
        std::copy(logits.begin(), logits.end(), adjusted_.begin());
    for (const auto& [id, bias] : params.logit_bias) {
        if (id >= 0 && static_cast<std::size_t>(id) < adjusted_.size()) adjusted_[static_cast<std::size_t>(id)] += bias;
    }
    if (!looks_back) return adjusted_;
    if (has_penalties(params)) penalize(params, history);
    apply_dry(adjusted_, params.dry, history, counts_, overlap_);
    return adjusted_;
}

void sampler::apply(std::span<const float> logits, const sampling_params& params, std::span<const token_id> history,
    float mu, float xtc_draw, const token_mask* allowed) {
    const auto adjusted = adjust(logits, params, history, allowed);
    auto& list = *list_;
    if (params.mirostat != 0) {
        chain::all(adjusted, list);
        chain::temperature(list, params.temperature);
        return chain::mirostat(list, mu, *work_);
    }
    if (greedy(params)) {
        const token_id best = chain::argmax(adjusted);
        list.items.assign(1, {best, adjusted[static_cast<std::size_t>(best)]});
        if (!(list.items[0].logit > -std::numeric_limits<float>::infinity())) list.items.clear();
        return;
    }
    if (params.top_k > 0 && params.top_n_sigma <= 0) {
        const std::size_t k = std::min(static_cast<std::size_t>(params.top_k), adjusted.size());
        chain::best_k(adjusted, static_cast<std::int32_t>(k), list.items);
        list.banned = k - list.items.size();
        list.sorted = true;
    } else {
        chain::all(adjusted, list);
        chain::top_n_sigma(list, params.top_n_sigma);
        chain::top_k(list, params.top_k);
    }
    chain::typical_p(list, params.typical_p, params.min_keep, *work_);
    chain::top_p(list, params.top_p, params.min_keep, *work_);
    chain::min_p(list, params.min_p, params.min_keep);
    chain::xtc(list, params.xtc_probability, params.xtc_threshold, xtc_draw, params.min_keep, *work_);
    chain::dynamic_temperature(list, params.temperature, params.dynatemp_range, params.dynatemp_exponent, *work_);
}

/// Index of the drawn one among the candidates, whose weights stay in the workspace.
std::size_t sampler::draw(float u) {
    const auto& items = list_->items;
    if (items.size() == 1) return 0;
    const double target = static_cast<double>(u) * chain::softmax_weights(items, work_->weights);
    double reached = 0;
    std::size_t last = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (!(work_->weights[i] > 0)) continue;
        last = i;
        reached += work_->weights[i];
        if (reached > target) break;
    }
    return last;
}

void sampler::add_logprobs(std::span<const float> logits, std::int32_t n, sampled_token& token) {
    const double best = logits[static_cast<std::size_t>(chain::argmax(logits))];
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit - best);
    const double log_sum = std::log(sum) + best;
    const auto logprob = [&](float logit) { return static_cast<float>(logit - log_sum); };
    token.logprob = logprob(logits[static_cast<std::size_t>(token.id)]);
    if (n <= 0) return;
    auto& best_ones = list_->items;
    chain::best_k(logits, n, best_ones);
    token.top.reserve(best_ones.size());
    for (const auto& c : best_ones) token.top.push_back({c.id, logprob(c.logit)});
}

void sampler::add_post_sampling_logprobs(std::int32_t n, sampled_token& token) {
    auto& items = list_->items;
    if (items.empty()) items.push_back({token.id, 0});
    const double log_sum = std::log(chain::softmax_weights(items, work_->weights));
    const auto wanted = items.begin() + std::min<std::ptrdiff_t>(n, static_cast<std::ptrdiff_t>(items.size()));
    const auto best = *std::min_element(items.begin(), items.end(), chain::before);
    const auto logprob = [&](const candidate& c) { return static_cast<float>(c.logit - best.logit - log_sum); };
    for (const auto& c : items)
        if (c.id == token.id) token.logprob = logprob(c);
    std::partial_sort(items.begin(), wanted, items.end(), chain::before);
    for (auto it = items.begin(); it != wanted; ++it) token.top.push_back({it->id, logprob(*it)});
}

sampled_token sampler::score(std::span<const float> logits, token_id id, std::int32_t n) {
    sampled_token token{.id = id};
    add_logprobs(logits, n, token);
    return token;
}

sampled_token sampler::sample(std::span<const float> logits, const sampling_params& params,
    std::span<const token_id> history, std::int64_t position, float mu, const token_mask* allowed) {
    const auto random = [&](std::uint32_t number) {
        return uniform(
            params.seed, static_cast<std::uint32_t>(params.choice), static_cast<std::uint64_t>(position), number);
    };
    apply(logits, params, history, mu, params.xtc_probability > 0 ? random(xtc_draw_number) : 0, allowed);
    sampled_token token;
    const auto& items = list_->items;
    double probability = 1;
    if (items.empty()) {
        if (allowed != nullptr) copy_allowed(logits, *allowed, adjusted_);
        token.id = chain::argmax(allowed != nullptr ? std::span<const float>(adjusted_) : logits);
    } else {
        const std::size_t i = items.size() == 1 ? 0 : draw(random(token_draw));
        token.id = items[i].id;
        if (params.mirostat != 0) {
            const double sum = chain::softmax_weights(items, work_->weights);
            probability = work_->weights[i] / sum;
        }
    }
    if (params.mirostat != 0)
        token.mu = chain::mirostat_next(mu, params.mirostat_tau, params.mirostat_eta, probability);
    if (params.n_logprobs < 0) return token;
    if (params.post_sampling_logprobs)
        add_post_sampling_logprobs(params.n_logprobs, token);
    else
        add_logprobs(logits, params.n_logprobs, token);
    return token;
}

std::vector<std::pair<token_id, float>> sampler::distribution(std::span<const float> logits,
    const sampling_params& params, std::span<const token_id> history, float mu, float xtc_draw) {
    apply(logits, params, history, mu, xtc_draw, nullptr);
    auto& items = list_->items;
    std::sort(items.begin(), items.end(), chain::before);
    const double sum = chain::softmax_weights(items, work_->weights);
    std::vector<std::pair<token_id, float>> out;
    out.reserve(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
        const auto probability = static_cast<float>(work_->weights[i] / sum);
        if (probability > 0) out.emplace_back(items[i].id, probability);
    }
    return out;
}

}  // namespace troupe::model
