// What linear.cpp (threads, blocking; baseline instructions) and the ISA files (arithmetic only) agree on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/types.hpp"

namespace troupe::kernels {

/// 32 activations of one row as int8, with a scale for each half of 16: x = d * q, d = max|x| / 127. Halves, because
/// SmolLM2 (Q4_1) has outlier channels: its mean KL divergence to the float reference was 1.11 times llama.cpp's with
/// one scale for 32 and is 0.54 times with two, for a tenth of the speed.
struct act_block {
    std::int8_t q[32];
    float d[2];
    float d_sum;             ///< sum of d * q, for types with a minimum
    std::int32_t centre[2];  ///< 32 * sum of q of the half, for types whose levels are stored with an offset
};
static_assert(sizeof(act_block) == 52);

/// One matrix times n rows of activations.
struct linear_args {
    const std::byte* w = nullptr;  ///< packed, see pack.hpp
    std::int64_t rows = 0, cols = 0;
    std::int64_t group_bytes = 0, scale_bytes = 0;  ///< of packed_group_layout
    const act_block* q = nullptr;                   ///< [n][cols / 32], for quantized types
    const float* x = nullptr;                       ///< [n][cols], for float types
    std::int64_t n = 0;
    const float* bias = nullptr;  ///< [rows] or null
    float* y = nullptr;           ///< [n], ldy floats apart
    std::int64_t ldy = 0;
};

/// Computes y for the rows of groups [begin, end), `lanes` rows a group, and all n rows of activations.
using linear_rows_fn = void (*)(const linear_args& args, std::int64_t begin, std::int64_t end);

struct linear_kernels {
    int lanes;
    bool offset_q8;  ///< packed Q8_0 weights have 128 added
    void (*quantize)(const float* x, std::int64_t cols, act_block* out);
    linear_rows_fn rows[static_cast<int>(dtype::count_)];
};

namespace avx2 {
extern const linear_kernels linear_kernel_set;
}
namespace avx512 {
extern const linear_kernels linear_kernel_set;
}

}  // namespace troupe::kernels
