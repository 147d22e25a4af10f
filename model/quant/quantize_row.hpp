// Float rows to every type a GGUF file can hold. For each block the scales are searched for the least squared error,
// weighted by the importance of each column where that is known.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/types.hpp"

namespace troupe::model {

/// False for the types this build only reads (mxfp4).
bool can_quantize_to(kernels::dtype type);

/// x[n] (finite, |x| <= 65504 for all but f32 and bf16) -> file layout; n is a multiple of the block. `importance`: [n]
/// weights >= 0 of squared errors (mean squared activations), or null: all alike. Deterministic: depends on the row
/// only.
void quantize_row(kernels::dtype type, const float* x, const float* importance, std::int64_t n, std::byte* dst);

namespace detail {
/// One block of 32 or 256 values. w[i] > 0.
using block_quantizer = void (*)(const float* x, const float* w, std::uint8_t* out);
void quantize_q4_0(const float* x, const float* w, std::uint8_t* out);
void quantize_q4_1(const float* x, const float* w, std::uint8_t* out);
void quantize_q5_0(const float* x, const float* w, std::uint8_t* out);
void quantize_q5_1(const float* x, const float* w, std::uint8_t* out);
void quantize_q8_0(const float* x, const float* w, std::uint8_t* out);
void quantize_iq4_nl(const float* x, const float* w, std::uint8_t* out);
void quantize_q2_k(const float* x, const float* w, std::uint8_t* out);
void quantize_q3_k(const float* x, const float* w, std::uint8_t* out);
void quantize_q4_k(const float* x, const float* w, std::uint8_t* out);
void quantize_q5_k(const float* x, const float* w, std::uint8_t* out);
void quantize_q6_k(const float* x, const float* w, std::uint8_t* out);
void quantize_iq4_xs(const float* x, const float* w, std::uint8_t* out);

/// Rounded to f16, with a neighbour taken where its error is smaller. error(float) -> float.
template <class Error> std::uint16_t best_half(float value, Error error) {
    const std::uint16_t nearest = kernels::float_to_half(value);
    std::uint16_t best = nearest;
    float least = error(kernels::half_to_float(nearest));
    for (const int step : {-1, 1}) {
        const int magnitude = (nearest & 0x7fff) + step;
        if (magnitude < 0 || magnitude > 0x7bff) continue;
        const auto candidate = static_cast<std::uint16_t>((nearest & 0x8000) | magnitude);
        const float e = error(kernels::half_to_float(candidate));
        if (e < least) least = e, best = candidate;
    }
    return best;
}

inline void put_half(std::uint8_t* out, std::uint16_t half) { __builtin_memcpy(out, &half, sizeof half); }
}  // namespace detail

}  // namespace troupe::model
