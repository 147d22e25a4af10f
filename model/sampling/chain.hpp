// The steps of a sampling chain: each narrows or reshapes one list of candidates. A new sampler is one more function
// here.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/sampling/sampler.hpp"

namespace troupe::model::chain {

using candidates = std::vector<sampler::candidate>;

/// What is left of the vocabulary. Probabilities are a fresh softmax of `items` at every step.
struct candidate_list {
    candidates items;        ///< those that may be drawn: no logit is -inf
    std::size_t banned = 0;  ///< entries with a logit of -inf: never drawn, but some samplers count the list's length
    bool sorted = false;     ///< items are in the order of `before`
    std::size_t size() const { return items.size() + banned; }
};

/// Scratch of a chain; grows to what its steps need and is reused.
struct workspace {
    struct ranked {
        double distance;
        sampler::candidate candidate;
    };
    std::vector<float> weights;
    std::vector<ranked> by_distance;
};

/// The order of every cut: logit descending, then id ascending.
inline bool before(const sampler::candidate& a, const sampler::candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

/// Index of the largest logit, the lowest of equals; 0 if there is none above -inf. `logits` must not be empty.
token_id argmax(std::span<const float> logits);

/// The `k` best of `logits` that are not -inf, into `out`, sorted. One pass over the vocabulary; k >= 1.
void best_k(std::span<const float> logits, std::int32_t k, candidates& out);
/// All of `logits`, by id.
void all(std::span<const float> logits, candidate_list& out);

/// exp(logit - largest logit) of each candidate into `weights` (same length); returns their sum.
double softmax_weights(const candidates& list, std::vector<float>& weights);

/// The k best; k <= 0: off. Leaves the list sorted.
void top_k(candidate_list& list, std::int32_t k);
/// Those within n standard deviations (of all logits but -inf) of the largest; the others are banned. n <= 0: off.
void top_n_sigma(candidate_list& list, float n);
/// Meister et al., "Locally typical sampling" (2022): nearest to the entropy first, until the probability exceeds p, at
/// least min_keep. p >= 1: off.
void typical_p(candidate_list& list, float p, std::int32_t min_keep, workspace& w);
/// The shortest best-first prefix whose probability reaches p (the crossing candidate stays), at least one and
/// min_keep. p >= 1: off. Leaves the list sorted, and only as much of it is ever sorted as survives.
void top_p(candidate_list& list, float p, std::int32_t min_keep, workspace& w);
/// Those with logit >= largest + ln p, at least min_keep; p <= 0: off.
void min_p(candidate_list& list, float p, std::int32_t min_keep);
/// Drops all but the least probable of the leading candidates with a probability of at least `threshold`, if min_keep
/// remain. Off when probability <= 0, threshold > 0.5 or draw > probability; `draw` in [0, 1).
void xtc(candidate_list& list, float probability, float threshold, float draw, std::int32_t min_keep, workspace& w);
/// logit / t relative to the largest (so that no t overflows); t <= 0 bans all but the best.
void temperature(candidate_list& list, float t);
/// Temperature by entropy: from t - range for a certain distribution to t + range for an even one, the way between them
/// bent by `exponent`. range <= 0: temperature.
void dynamic_temperature(candidate_list& list, float t, float range, float exponent, workspace& w);
/// Basu et al., "Mirostat" (2021), version 2: drops candidates with a surprise above mu bits, at least one stays.
void mirostat(candidate_list& list, float mu, workspace& w);
/// mu after a token that had `probability` after the cut was drawn.
float mirostat_next(float mu, float tau, float eta, double probability);

}  // namespace troupe::model::chain
