// The fast `linear` of the CPU tables: one set of functions an instruction set, put into its op table.
#pragma once

#include "kernels/ops.hpp"
#include "kernels/routing.hpp"

namespace troupe::kernels {

inline constexpr int most_stack_jobs = 2;

/// Rows of y are ldy floats apart; slot_map says which.
struct stack_job {
    const weight_stack* w = nullptr;
    float* y = nullptr;
    std::int64_t ldy = 0;
};

struct linear_ops {
    /// As in ops.hpp. Every dtype is supported; a quantized type needs cols to be a multiple of its block.
    std::size_t (*packed_bytes)(dtype type, std::int64_t rows, std::int64_t cols);
    void (*pack)(pool& threads, dtype type, std::int64_t rows, std::int64_t cols, const std::byte* src, std::byte* dst);
    void (*linear)(context& c, const float* x, std::int64_t n, std::int64_t cols, const linear_job* jobs, int n_jobs);
    /// Scratch `linear` needs for at most max_rows rows of x with at most max_cols values.
    std::size_t (*scratch_bytes)(std::int64_t max_rows, std::int64_t max_cols);
    /// Products of stacks: rows of x, ldx floats apart, with the matrices they meet. All jobs share x.
    void (*stack)(context& c, const float* x, std::int64_t ldx, const slot_map& map, const stack_job* jobs, int n_jobs);
    /// Scratch `stack` needs for so many slots * cols, and matrices in a stack.
    std::size_t (*stack_scratch_bytes)(std::int64_t values, std::int64_t matrices);
};

namespace avx2 {
extern const linear_ops linear;
}
namespace avx512 {
extern const linear_ops linear;  ///< needs AVX-512 F, BW, VL, DQ and VNNI
}

}  // namespace troupe::kernels
