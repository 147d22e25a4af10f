// The fast `linear` of the CPU tables: one set of functions an instruction set, put into its op table.
#pragma once

#include "kernels/ops.hpp"

namespace troupe::kernels {

struct linear_ops {
    /// As in ops.hpp. Every dtype is supported; a quantized type needs cols to be a multiple of its block.
    std::size_t (*packed_bytes)(dtype type, std::int64_t rows, std::int64_t cols);
    void (*pack)(pool& threads, dtype type, std::int64_t rows, std::int64_t cols, const std::byte* src, std::byte* dst);
    void (*linear)(context& c, const float* x, std::int64_t n, std::int64_t cols, const linear_job* jobs, int n_jobs);
    /// Scratch `linear` needs for at most max_rows rows of x with at most max_cols values.
    std::size_t (*scratch_bytes)(std::int64_t max_rows, std::int64_t max_cols);
};

namespace avx2 {
extern const linear_ops linear;
}
namespace avx512 {
extern const linear_ops linear;  ///< needs AVX-512 F, BW, VL, DQ and VNNI
}

}  // namespace troupe::kernels
