// The candidate-narrowing steps: partial selection instead of sorting whole vocabularies.
#include "model/sampling/chain.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace troupe::model::chain {

namespace {

constexpr std::size_t block = 64;

/// Is any of 64 logits above the bar? Written so that the compiler vectorizes it; blocks without one are skipped.
bool any_above(const float* logits, float bar) {
    int found = 0;
    for (std::size_t i = 0; i < block; ++i) found |= static_cast<int>(logits[i] > bar);
    return found != 0;
}

float largest(const candidates& list) {
    float best = -std::numeric_limits<float>::infinity();
    for (const auto& c : list) best = std::max(best, c.logit);
    return best;
}

}  // namespace

token_id argmax(std::span<const float> logits) {
    float best = -std::numeric_limits<float>::infinity();
    std::size_t index = 0;
    for (std::size_t start = 0; start < logits.size(); start += block) {
        const std::size_t end = std::min(logits.size(), start + block);
        if (end - start == block && !any_above(logits.data() + start, best)) continue;
        for (std::size_t i = start; i < end; ++i) {
            if (logits[i] > best) best = logits[i], index = i;
        }
    }
    return static_cast<token_id>(index);
}

void best_k(std::span<const float> logits, std::int32_t k, candidates& out) {
    out.clear();
    const auto limit = static_cast<std::size_t>(k);
    // Heap with the worst survivor on top. Ids ascend, so an equal logit met later always loses: strict > is enough.
    float bar = -std::numeric_limits<float>::infinity();
    for (std::size_t start = 0; start < logits.size(); start += block) {
        const std::size_t end = std::min(logits.size(), start + block);
        if (end - start == block && !any_above(logits.data() + start, bar)) continue;
        for (std::size_t i = start; i < end; ++i) {
            if (!(logits[i] > bar)) continue;
            if (out.size() == limit) {
                std::pop_heap(out.begin(), out.end(), before);
                out.pop_back();
            }
            out.push_back({static_cast<token_id>(i), logits[i]});
            std::push_heap(out.begin(), out.end(), before);
            if (out.size() == limit) bar = out.front().logit;
        }
    }
    std::sort_heap(out.begin(), out.end(), before);
}

void all(std::span<const float> logits, candidates& out) {
    out.clear();
    for (std::size_t i = 0; i < logits.size(); ++i) {
        if (logits[i] > -std::numeric_limits<float>::infinity()) out.push_back({static_cast<token_id>(i), logits[i]});
    }
}

double softmax_weights(const candidates& list, std::vector<float>& weights) {
    const float best = largest(list);
    weights.resize(list.size());
    double sum = 0;
    for (std::size_t i = 0; i < list.size(); ++i) sum += weights[i] = std::exp(list[i].logit - best);
    return sum;
}

void top_p(candidates& list, float p, bool sorted, std::vector<float>& weights) {
    if (list.empty()) return;
    const double total = softmax_weights(list, weights);
    const float best = largest(list);
    double reached = 0;
    std::size_t kept = 0, in_order = sorted ? list.size() : 0;
    while (kept < list.size()) {
        if (kept == in_order) {
            // Grow the sorted prefix in steps of four: a peaked distribution costs one selection, a flat one few.
            const std::size_t next = std::min(list.size(), in_order == 0 ? std::size_t{128} : in_order * 4);
            const auto from = list.begin() + static_cast<std::ptrdiff_t>(in_order);
            const auto to = list.begin() + static_cast<std::ptrdiff_t>(next);
            if (next < list.size()) std::nth_element(from, to, list.end(), before);
            std::sort(from, to, before);
            in_order = next;
        }
        reached += std::exp(list[kept].logit - best) / total;
        ++kept;
        if (reached >= static_cast<double>(p)) break;
    }
    list.resize(kept);
}

void min_p(candidates& list, float p) {
    if (list.empty()) return;
    const float best = largest(list);
    const float bar = best + std::log(p);
    std::erase_if(list, [&](const sampler::candidate& c) { return !(c.logit >= bar) && c.logit != best; });
}

void temperature(candidates& list, float t) {
    if (list.empty()) return;
    if (t <= 0) {
        list.front() = *std::min_element(list.begin(), list.end(), before);
        list.resize(1);
        return;
    }
    const float best = largest(list);
    for (auto& c : list) c.logit = (c.logit - best) / t;
}

}  // namespace troupe::model::chain
