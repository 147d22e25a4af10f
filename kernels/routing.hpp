// What the tables share around stacks of matrices: which slots meet which matrix, the router, strided copies.
#pragma once

#include "kernels/ops.hpp"

namespace troupe::kernels {

/// A slot is one meeting of a row of x with a matrix of a stack; the slots of a matrix are consecutive. For experts
/// slots are those of route(), and y has a row a slot. For heads (`first` null) each of n tokens meets every matrix:
/// slot h * n + i is row i * matrices + h of x and of y.
struct slot_map {
    std::int64_t matrices = 0;
    std::int64_t n = 0;                   ///< tokens; only for heads
    const std::int32_t* first = nullptr;  ///< [matrices + 1]
    const std::int32_t* row = nullptr;    ///< of x, by slot; null: x has a row a slot

    static slot_map heads(const weight_stack& w, std::int64_t n) { return {w.count, n, nullptr, nullptr}; }
    static slot_map experts(const routing& r, expert_input input) {
        return {r.n_experts, 0, r.first, input == expert_input::rows ? r.row : nullptr};
    }
    std::int64_t begin(std::int64_t m) const { return first ? first[m] : m * n; }
    std::int64_t count(std::int64_t m) const { return begin(m + 1) - begin(m); }
    std::int64_t slots() const { return begin(matrices); }
    std::int64_t x_row(std::int64_t slot) const {
        if (!first) return slot % n * matrices + slot / n;
        return row ? row[slot] : slot;
    }
    /// Row of y of a matrix's first slot, and rows from slot to slot.
    std::int64_t y_row(std::int64_t m) const { return first ? first[m] : m; }
    std::int64_t y_step() const { return first ? 1 : matrices; }
};

void route(context& c, const router_params& p, const float* logits, std::int64_t n, const routing& r);
void copy_rows(
    context& c, const float* x, std::int64_t ldx, std::int64_t n, std::int64_t dim, float* y, std::int64_t ldy);

}  // namespace troupe::kernels
