// Element types of weights and KV memory, with their block geometry (source: the GGUF specification and ggml's block
// structs).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace troupe::kernels {

/// q5_0: Gemma 3 270M "Q4_K_M" has 81 such tensors (rows of 640 are no multiple of 256).
enum class dtype : std::uint8_t {
    f32,
    f16,
    bf16,
    q4_0,
    q4_1,
    q8_0,
    q4_k,
    q5_k,
    q6_k,
    q5_0,
    q5_1,
    q2_k,
    q3_k,
    iq4_nl,
    iq4_xs,
    mxfp4,
    awq_32,  ///< AutoAWQ's 4 bits with a scale and a zero for 32, 64 or 128 values; no type of GGUF
    awq_64,
    awq_128,
    count_
};

struct dtype_info {
    dtype type;
    std::string_view name;  ///< as users write it: "q4_k"
    int block_values;       ///< values in one block, along a row
    int block_bytes;        ///< bytes of one block in file layout
    bool quantized;         ///< true: products take int8 activations; false: float activations
};

const dtype_info& info(dtype type);
std::optional<dtype> dtype_from_name(std::string_view name);

/// Bytes of one row of `cols` values in file layout. `cols` must be a multiple of block_values.
std::size_t row_bytes(dtype type, std::int64_t cols);

/// Dequantize `n` values (a multiple of block_values) from file layout. Bit-identical to ggml's to_float.
void dequantize(dtype type, const std::byte* src, std::int64_t n, float* dst);

float half_to_float(std::uint16_t h);
std::uint16_t float_to_half(float f);  ///< round to nearest even
float bfloat_to_float(std::uint16_t h);
std::uint16_t float_to_bfloat(float f);  ///< round to nearest even, NaN stays NaN

}  // namespace troupe::kernels
