// The steps of a sampling chain: each narrows or reshapes one list of candidates. A new sampler is one more function
// here.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/sampling/sampler.hpp"

namespace troupe::model::chain {

using candidates = std::vector<sampler::candidate>;

/// The order of every cut: logit descending, then id ascending.
inline bool before(const sampler::candidate& a, const sampler::candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

/// Index of the largest logit, the lowest of equals; 0 if there is none above -inf. `logits` must not be empty.
token_id argmax(std::span<const float> logits);

/// The `k` best of `logits` that are not -inf, into `out`, sorted. One pass over the vocabulary; k >= 1.
void best_k(std::span<const float> logits, std::int32_t k, candidates& out);
/// All of `logits` that are not -inf, by id.
void all(std::span<const float> logits, candidates& out);

/// exp(logit - largest logit) of each candidate into `weights` (same length); returns their sum.
double softmax_weights(const candidates& list, std::vector<float>& weights);

/// The shortest best-first prefix whose probability reaches p (the crossing candidate stays; at least one). Leaves the
/// list sorted, and only as much of it is ever sorted as survives. `weights` is scratch.
void top_p(candidates& list, float p, bool sorted, std::vector<float>& weights);
/// Those with logit >= largest + ln p; order kept.
void min_p(candidates& list, float p);
/// logit / t relative to the largest (so that no t overflows); t <= 0 keeps the best alone.
void temperature(candidates& list, float t);

}  // namespace troupe::model::chain
