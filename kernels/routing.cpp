// The router of a mixture of experts: one function for every table, since what is chosen must not depend on the table.
#include "kernels/routing.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/check.hpp"

namespace troupe::kernels {
namespace {

/// Fills one row's experts (by rank) and weights.
void choose(const router_params& p, const float* logits, std::int32_t* expert, float* weight) {
    std::array<bool, most_experts> taken{};
    for (int rank = 0; rank < p.n_used; ++rank) {
        int best = -1;
        for (int e = 0; e < p.n_experts; ++e)  // a NaN is never displaced, and never displaces
            if (!taken[static_cast<std::size_t>(e)] && (best < 0 || logits[e] > logits[best])) best = e;
        taken[static_cast<std::size_t>(best)] = true;
        expert[rank] = best;
    }
    const double top = logits[expert[0]];
    double total = 0, chosen = 0;
    for (int e = 0; e < p.n_experts; ++e) total += std::exp(logits[e] - top);
    for (int rank = 0; rank < p.n_used; ++rank) chosen += std::exp(logits[expert[rank]] - top);
    const double divisor = p.normalize ? chosen : total;
    for (int rank = 0; rank < p.n_used; ++rank)
        weight[rank] = static_cast<float>(p.scale * std::exp(logits[expert[rank]] - top) / divisor);
}

}  // namespace

void route(context& c, const router_params& p, const float* logits, std::int64_t n, const routing& r) {
    CHECK(p.n_experts >= 1 && p.n_experts <= most_experts && p.n_used >= 1 && p.n_used <= p.n_experts);
    CHECK(r.n_experts == p.n_experts && r.n_used == p.n_used);
    constexpr std::int64_t rows_per_task = 8;
    c.threads.run((n + rows_per_task - 1) / rows_per_task, [&](std::int64_t task, int) {
        for (std::int64_t i = task * rows_per_task; i < std::min((task + 1) * rows_per_task, n); ++i)
            choose(p, logits + i * p.n_experts, r.slot + i * p.n_used, r.weight + i * p.n_used);
    });
    // Slots by counting: first[e] runs ahead while an expert's slots are handed out, and is moved back at the end.
    std::fill(r.first, r.first + p.n_experts + 1, 0);
    for (std::int64_t i = 0; i < n * p.n_used; ++i) ++r.first[r.slot[i] + 1];
    for (int e = 0; e < p.n_experts; ++e) r.first[e + 1] += r.first[e];
    for (std::int64_t i = 0; i < n * p.n_used; ++i) {
        const std::int32_t slot = r.first[r.slot[i]]++;
        r.row[slot] = static_cast<std::int32_t>(i / p.n_used);
        r.slot[i] = slot;
    }
    for (int e = p.n_experts; e > 0; --e) r.first[e] = r.first[e - 1];
    r.first[0] = 0;
}

void copy_rows(
    context&, const float* x, std::int64_t ldx, std::int64_t n, std::int64_t dim, float* y, std::int64_t ldy) {
    for (std::int64_t i = 0; i < n; ++i) std::copy_n(x + i * ldx, dim, y + i * ldy);
}

}  // namespace troupe::kernels
