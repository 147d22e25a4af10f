// Fields of the file formats that packing, dequantizing and quantizing share: sub-block scales and the level sets of
// the non-uniform types. Internal linkage throughout: files for one instruction set include it too (they must not emit
// weak symbols). Source: the GGUF specification and ggml's block structs.
#pragma once

#include <cstdint>

namespace troupe::kernels {

/// Levels of iq4_nl and iq4_xs, ascending.
constexpr std::int8_t iq4_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
/// Levels of mxfp4: twice the values of E2M1, which are multiples of a half.
constexpr std::int8_t mxfp4_levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

struct scale_min {
    int scale, min;
};

/// Sub-block j (0..7) of the 12 bytes of 6-bit scales and mins that q4_k and q5_k share.
[[maybe_unused]] static scale_min k_scale_min(const std::uint8_t* s, int j) {
    if (j < 4) return {s[j] & 63, s[j + 4] & 63};
    return {(s[j + 4] & 15) | (s[j - 4] >> 6) << 4, (s[j + 4] >> 4) | (s[j] >> 6) << 4};
}

/// Sub-block j (0..15) of q3_k's 12 bytes: four low bits, then two high ones; -32..31.
[[maybe_unused]] static int q3_k_scale(const std::uint8_t* s, int j) {
    const int low = j < 8 ? s[j] & 15 : s[j - 8] >> 4;
    return (low | (s[8 + j % 4] >> j / 4 * 2 & 3) << 4) - 32;
}

/// Sub-block j (0..7) of iq4_xs: two high bits in a u16 (2 bytes), then 4 bytes of low nibbles; -32..31.
[[maybe_unused]] static int iq4_xs_scale(const std::uint8_t* s, int j) {
    const int high = s[j / 4] >> j % 4 * 2 & 3, low = s[2 + j / 2] >> j % 2 * 4 & 15;
    return (low | high << 4) - 32;
}

/// Half of 2^(e - 127), since mxfp4_levels are doubled. Exact: the two smallest are subnormal.
[[maybe_unused]] static float mxfp4_scale(std::uint8_t e) {
    const std::uint32_t bits = e < 2 ? std::uint32_t{0x200000} << e : static_cast<std::uint32_t>(e - 1) << 23;
    float scale;
    __builtin_memcpy(&scale, &bits, sizeof scale);
    return scale;
}

}  // namespace troupe::kernels
