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

/// Puts a list in order only as far as it is read: a peaked distribution costs one selection, a flat one few.
template <class T, class Less> class ordered_prefix {
 public:
    ordered_prefix(std::vector<T>& list, bool sorted, Less less)
        : list_(list), less_(less), done_(sorted ? list.size() : 0) {}
    const T& operator[](std::size_t i) {
        while (i >= done_) {
            const std::size_t next = std::min(list_.size(), done_ == 0 ? std::size_t{128} : done_ * 4);
            const auto from = list_.begin() + static_cast<std::ptrdiff_t>(done_);
            const auto to = list_.begin() + static_cast<std::ptrdiff_t>(next);
            if (next < list_.size()) std::nth_element(from, to, list_.end(), less_);
            std::sort(from, to, less_);
            done_ = next;
        }
        return list_[i];
    }
    bool complete() const { return done_ == list_.size(); }

 private:
    std::vector<T>& list_;
    Less less_;
    std::size_t done_;
};

/// The first n entries of the list stay; -inf ones come behind all others.
void keep_first(candidate_list& list, std::size_t n) {
    const std::size_t drawable = std::min(n, list.items.size());
    list.banned = std::min(list.banned, n - drawable);
    list.items.resize(drawable);
}

std::size_t at_least(std::int32_t min_keep) { return static_cast<std::size_t>(std::max(min_keep, 1)); }

/// Shannon entropy of the softmax, in nats. `total` is the sum of exp(logit - best).
double entropy(const candidates& list, float best, double total) {
    double sum = 0;
    for (const auto& c : list) {
        const double distance = static_cast<double>(c.logit) - best;
        sum -= std::exp(distance) / total * (distance - std::log(total));
    }
    return sum;
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

void all(std::span<const float> logits, candidate_list& out) {
    out.items.clear();
    out.sorted = false;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        if (logits[i] > -std::numeric_limits<float>::infinity())
            out.items.push_back({static_cast<token_id>(i), logits[i]});
    }
    out.banned = logits.size() - out.items.size();
}

double softmax_weights(const candidates& list, std::vector<float>& weights) {
    const float best = largest(list);
    weights.resize(list.size());
    double sum = 0;
    for (std::size_t i = 0; i < list.size(); ++i) sum += weights[i] = std::exp(list[i].logit - best);
    return sum;
}

void top_k(candidate_list& list, std::int32_t k) {
    if (k <= 0) return;
    auto& items = list.items;
    const auto n = std::min(static_cast<std::size_t>(k), items.size());
    if (!list.sorted) {
        const auto end = items.begin() + static_cast<std::ptrdiff_t>(n);
        if (n < items.size()) std::nth_element(items.begin(), end, items.end(), before);
        std::sort(items.begin(), end, before);
    }
    keep_first(list, static_cast<std::size_t>(k));
    list.sorted = true;
}

void top_n_sigma(candidate_list& list, float n) {
    if (n <= 0 || list.items.empty()) return;
    const auto count = static_cast<double>(list.items.size());
    double mean = 0, variance = 0;
    for (const auto& c : list.items) mean += c.logit / count;
    for (const auto& c : list.items) variance += (c.logit - mean) * (c.logit - mean) / count;
    const double bar = largest(list.items) - static_cast<double>(n) * std::sqrt(variance);
    const std::size_t size = list.size();
    std::erase_if(list.items, [&](const sampler::candidate& c) { return c.logit < bar; });
    list.banned = size - list.items.size();
}

void typical_p(candidate_list& list, float p, std::int32_t min_keep, workspace& w) {
    if (p >= 1 || list.items.empty()) return;
    const double total = softmax_weights(list.items, w.weights);
    const float best = largest(list.items);
    const double middle = entropy(list.items, best, total), log_total = std::log(total);
    w.by_distance.clear();
    for (const auto& c : list.items)
        w.by_distance.push_back({std::abs(log_total - (static_cast<double>(c.logit) - best) - middle), c});
    const auto nearer = [](const workspace::ranked& a, const workspace::ranked& b) {
        return a.distance != b.distance ? a.distance < b.distance : before(a.candidate, b.candidate);
    };
    ordered_prefix order(w.by_distance, false, nearer);
    double reached = 0;
    std::size_t kept = 0;
    while (kept < w.by_distance.size()) {
        const auto& c = order[kept].candidate;
        list.items[kept++] = c;
        reached += std::exp(static_cast<double>(c.logit) - best) / total;
        if (reached > static_cast<double>(p) && kept >= at_least(min_keep)) break;
    }
    const bool crossed = reached > static_cast<double>(p);
    keep_first(list, crossed ? std::max(kept, at_least(min_keep)) : list.size());
    list.sorted = false;
}

void top_p(candidate_list& list, float p, std::int32_t min_keep, workspace& w) {
    if (p >= 1 || list.items.empty()) return;
    const double total = softmax_weights(list.items, w.weights);
    const float best = largest(list.items);
    ordered_prefix order(list.items, list.sorted, before);
    double reached = 0;
    std::size_t kept = 0;
    while (kept < list.items.size()) {
        reached += std::exp(order[kept].logit - best) / total;
        ++kept;
        if (reached >= static_cast<double>(p) && kept >= at_least(min_keep)) break;
    }
    keep_first(list, std::max(kept, at_least(min_keep)));
    list.sorted = true;
}

void min_p(candidate_list& list, float p, std::int32_t min_keep) {
    if (p <= 0 || list.items.empty()) return;
    const float best = largest(list.items);
    const float bar = best + std::log(p);
    const auto stays = [&](const sampler::candidate& c) { return c.logit >= bar || c.logit == best; };
    const auto n = static_cast<std::size_t>(std::count_if(list.items.begin(), list.items.end(), stays));
    if (n < at_least(min_keep)) return top_k(list, std::max(min_keep, 1));
    std::erase_if(list.items, [&](const sampler::candidate& c) { return !stays(c); });
    list.banned = 0;
}

void xtc(candidate_list& list, float probability, float threshold, float draw, std::int32_t min_keep, workspace& w) {
    if (probability <= 0 || threshold > 0.5f || list.size() < 2 || list.items.empty() || draw > probability) return;
    const double total = softmax_weights(list.items, w.weights);
    const float best = largest(list.items);
    ordered_prefix order(list.items, list.sorted, before);
    std::size_t leading = 0;
    while (leading < list.items.size() &&
           std::exp(static_cast<double>(order[leading].logit) - best) / total >= static_cast<double>(threshold))
        ++leading;
    if (leading < 2 || list.size() - (leading - 1) < at_least(min_keep)) return;
    list.sorted = order.complete();
    list.items.erase(list.items.begin(), list.items.begin() + static_cast<std::ptrdiff_t>(leading - 1));
}

void temperature(candidate_list& list, float t) {
    auto& items = list.items;
    if (items.empty()) return;
    if (t <= 0) {
        items.front() = *std::min_element(items.begin(), items.end(), before);
        list.banned = list.size() - 1;
        items.resize(1);
        return;
    }
    if (t == 1) return;
    const float best = largest(items);
    for (auto& c : items) c.logit = (c.logit - best) / t;
}

void dynamic_temperature(candidate_list& list, float t, float range, float exponent, workspace& w) {
    if (range <= 0) return temperature(list, t);
    if (list.size() <= 1 || list.items.empty()) return;
    const double total = softmax_weights(list.items, w.weights);
    const double even = std::log(static_cast<double>(list.size()));
    const double share = entropy(list.items, largest(list.items), total) / even;
    const double low = std::max(0.0, static_cast<double>(t) - range), high = static_cast<double>(t) + range;
    temperature(list, static_cast<float>(low + (high - low) * std::pow(std::max(share, 0.0), exponent)));
}

void mirostat(candidate_list& list, float mu, workspace& w) {
    if (list.items.empty()) return;
    const double log_total = std::log(softmax_weights(list.items, w.weights));
    const float best = largest(list.items);
    const auto surprise = [&](const sampler::candidate& c) {
        return (log_total - (static_cast<double>(c.logit) - best)) / std::log(2.0);
    };
    const auto first = *std::min_element(list.items.begin(), list.items.end(), before);
    std::erase_if(list.items, [&](const sampler::candidate& c) { return surprise(c) > mu && c.id != first.id; });
    list.banned = 0;
}

float mirostat_next(float mu, float tau, float eta, double probability) {
    return static_cast<float>(mu - static_cast<double>(eta) * (-std::log2(probability) - tau));
}

}  // namespace troupe::model::chain
