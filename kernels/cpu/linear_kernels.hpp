// What linear.cpp (threads, blocking; baseline instructions) and the ISA files (arithmetic only) agree on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/types.hpp"

namespace troupe::kernels {

/// 32 activations of one row as int8: x = d * q, d = max|x| / 127.
struct act_block {
    std::int8_t q[32];
    float d;
    float d_sum;           ///< d * sum of q, for types with a minimum
    std::int16_t half[2];  ///< sum of q[0..16) and of q[16..32)
    std::int32_t sum;      ///< of q
};
static_assert(sizeof(act_block) == 48);

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
