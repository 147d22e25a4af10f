// Block geometry of every element type, exact dequantization, and the 16-bit float conversions (software: any x86-64).
#include "kernels/types.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "core/check.hpp"

namespace troupe::kernels {
namespace {

constexpr int n_types = static_cast<int>(dtype::count_);

constexpr std::array<dtype_info, n_types> infos{{
    {dtype::f32, "f32", 1, 4, false},
    {dtype::f16, "f16", 1, 2, false},
    {dtype::bf16, "bf16", 1, 2, false},
    {dtype::q4_0, "q4_0", 32, 18, true},
    {dtype::q4_1, "q4_1", 32, 20, true},
    {dtype::q8_0, "q8_0", 32, 34, true},
    {dtype::q4_k, "q4_k", 256, 144, true},
    {dtype::q5_k, "q5_k", 256, 176, true},
    {dtype::q6_k, "q6_k", 256, 210, true},
    {dtype::q5_0, "q5_0", 32, 22, true},
}};

constexpr bool rows_match_enum() {
    for (int i = 0; i < n_types; ++i)
        if (static_cast<int>(infos[i].type) != i) return false;
    return true;
}
static_assert(rows_match_enum());

std::uint8_t byte_at(const std::byte* p, int i) { return std::to_integer<std::uint8_t>(p[i]); }

std::uint16_t u16_at(const std::byte* p) {
    std::uint16_t v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

float half_at(const std::byte* p) { return half_to_float(u16_at(p)); }

// The blocks below are given as: field (bytes). Every product of a scale and a quantum is formed in the order ggml
// forms it, because Q6_K's (d * scale) * q needs 25 bits and its rounding depends on the order.

/// d (2), 16 bytes: value j in the low nibble of byte j, value j + 16 in the high one; offset 8.
void block_q4_0(const std::byte* b, float* y) {
    const float d = half_at(b);
    for (int j = 0; j < 16; ++j) {
        const int q = byte_at(b, 2 + j);
        y[j] = static_cast<float>((q & 15) - 8) * d;
        y[j + 16] = static_cast<float>((q >> 4) - 8) * d;
    }
}

/// d (2), min (2), 16 bytes of nibbles as in q4_0.
void block_q4_1(const std::byte* b, float* y) {
    const float d = half_at(b), m = half_at(b + 2);
    for (int j = 0; j < 16; ++j) {
        const int q = byte_at(b, 4 + j);
        y[j] = static_cast<float>(q & 15) * d + m;
        y[j + 16] = static_cast<float>(q >> 4) * d + m;
    }
}

/// d (2), fifth bits (4, bit i for value i), 16 bytes of nibbles as in q4_0; offset 16.
void block_q5_0(const std::byte* b, float* y) {
    const float d = half_at(b);
    std::uint32_t high;
    std::memcpy(&high, b + 2, sizeof high);
    for (int j = 0; j < 16; ++j) {
        const int q = byte_at(b, 6 + j);
        const int low = (q & 15) | static_cast<int>((high >> j & 1) << 4);
        const int up = (q >> 4) | static_cast<int>((high >> (j + 16) & 1) << 4);
        y[j] = static_cast<float>(low - 16) * d;
        y[j + 16] = static_cast<float>(up - 16) * d;
    }
}

/// d (2), 32 signed bytes.
void block_q8_0(const std::byte* b, float* y) {
    const float d = half_at(b);
    for (int j = 0; j < 32; ++j) y[j] = static_cast<float>(static_cast<std::int8_t>(byte_at(b, 2 + j))) * d;
}

struct scale_min {
    int scale, min;
};

/// Sub-block j (0..7) of the 12 bytes of 6-bit scales and mins that Q4_K and Q5_K share.
scale_min k_scale(const std::byte* s, int j) {
    if (j < 4) return {byte_at(s, j) & 63, byte_at(s, j + 4) & 63};
    return {
        (byte_at(s, j + 4) & 15) | (byte_at(s, j - 4) >> 6 << 4), (byte_at(s, j + 4) >> 4) | (byte_at(s, j) >> 6 << 4)};
}

/// d (2), dmin (2), scales (12), 128 bytes: each 32 bytes hold 64 values, the low nibbles first.
void block_q4_k(const std::byte* b, float* y) {
    const float d = half_at(b), dmin = half_at(b + 2);
    const std::byte* q = b + 16;
    for (int j = 0; j < 8; ++j) {
        const scale_min sm = k_scale(b + 4, j);
        const float scale = d * static_cast<float>(sm.scale), min = dmin * static_cast<float>(sm.min);
        const int shift = (j & 1) * 4;
        for (int l = 0; l < 32; ++l)
            y[32 * j + l] = scale * static_cast<float>(byte_at(q, 32 * (j / 2) + l) >> shift & 15) - min;
    }
}

/// d (2), dmin (2), scales (12), fifth bits (32: bit j of byte l for value 32 j + l), 128 bytes as in q4_k.
void block_q5_k(const std::byte* b, float* y) {
    const float d = half_at(b), dmin = half_at(b + 2);
    const std::byte* high = b + 16;
    const std::byte* q = b + 48;
    for (int j = 0; j < 8; ++j) {
        const scale_min sm = k_scale(b + 4, j);
        const float scale = d * static_cast<float>(sm.scale), min = dmin * static_cast<float>(sm.min);
        const int shift = (j & 1) * 4;
        for (int l = 0; l < 32; ++l) {
            const int low = byte_at(q, 32 * (j / 2) + l) >> shift & 15;
            y[32 * j + l] = scale * static_cast<float>(low | (byte_at(high, l) >> j & 1) << 4) - min;
        }
    }
}

/// low nibbles (128), high bit pairs (64), signed scales of 16 values each (16), d (2); offset 32. Each half of the
/// block holds 4 x 32 values: nibble and bit pair k of byte l belong to value 32 k + l.
void block_q6_k(const std::byte* b, float* y) {
    const float d = half_at(b + 208);
    for (int half = 0; half < 2; ++half) {
        const std::byte* low = b + 64 * half;
        const std::byte* high = b + 128 + 32 * half;
        for (int k = 0; k < 4; ++k)
            for (int l = 0; l < 32; ++l) {
                const int nibble = byte_at(low, l + 32 * (k & 1)) >> (k >> 1) * 4 & 15;
                const int q = (nibble | (byte_at(high, l) >> 2 * k & 3) << 4) - 32;
                const int scale = static_cast<std::int8_t>(byte_at(b, 192 + 8 * half + 2 * k + l / 16));
                y[128 * half + 32 * k + l] = d * static_cast<float>(scale) * static_cast<float>(q);
            }
    }
}

void one_f32(const std::byte* b, float* y) { std::memcpy(y, b, sizeof *y); }
void one_f16(const std::byte* b, float* y) { *y = half_at(b); }
void one_bf16(const std::byte* b, float* y) { *y = bfloat_to_float(u16_at(b)); }

template <void (*block)(const std::byte*, float*)>
void each_block(const dtype_info& t, const std::byte* src, std::int64_t n, float* dst) {
    for (std::int64_t i = 0; i < n; i += t.block_values, src += t.block_bytes, dst += t.block_values) block(src, dst);
}

}  // namespace

const dtype_info& info(dtype type) {
    CHECK(type < dtype::count_);
    return infos[static_cast<std::size_t>(type)];
}

std::optional<dtype> dtype_from_name(std::string_view name) {
    for (const dtype_info& t : infos)
        if (t.name == name) return t.type;
    return std::nullopt;
}

std::size_t row_bytes(dtype type, std::int64_t cols) {
    const dtype_info& t = info(type);
    CHECK(cols >= 0 && cols % t.block_values == 0);
    return static_cast<std::size_t>(cols / t.block_values) * static_cast<std::size_t>(t.block_bytes);
}

void dequantize(dtype type, const std::byte* src, std::int64_t n, float* dst) {
    const dtype_info& t = info(type);
    CHECK(n >= 0 && n % t.block_values == 0);
    switch (type) {
    case dtype::f32:
        return each_block<one_f32>(t, src, n, dst);
    case dtype::f16:
        return each_block<one_f16>(t, src, n, dst);
    case dtype::bf16:
        return each_block<one_bf16>(t, src, n, dst);
    case dtype::q4_0:
        return each_block<block_q4_0>(t, src, n, dst);
    case dtype::q4_1:
        return each_block<block_q4_1>(t, src, n, dst);
    case dtype::q8_0:
        return each_block<block_q8_0>(t, src, n, dst);
    case dtype::q4_k:
        return each_block<block_q4_k>(t, src, n, dst);
    case dtype::q5_k:
        return each_block<block_q5_k>(t, src, n, dst);
    case dtype::q6_k:
        return each_block<block_q6_k>(t, src, n, dst);
    case dtype::q5_0:
        return each_block<block_q5_0>(t, src, n, dst);
    case dtype::count_:
        break;
    }
    CHECK(false, "unknown dtype");
}

float half_to_float(std::uint16_t h) {
    const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000) << 16;
    const std::uint32_t magnitude = h & 0x7fff;
    if (magnitude >= 0x7c00) {  // infinity or NaN; a signalling NaN becomes quiet as in F16C
        const std::uint32_t payload = (magnitude & 0x3ff) << 13;
        return std::bit_cast<float>(sign | 0x7f800000 | payload | (payload != 0 ? 0x400000u : 0u));
    }
    if (magnitude < 0x400) {  // zero or subnormal: magnitude * 2^-24 is exact
        const float value = static_cast<float>(magnitude) * 0x1p-24f;
        return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
    }
    return std::bit_cast<float>(sign | ((magnitude << 13) + ((127 - 15) << 23)));
}

std::uint16_t float_to_half(float f) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
    const std::uint32_t sign = bits >> 16 & 0x8000;
    const std::uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return static_cast<std::uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x477ff000) return static_cast<std::uint16_t>(sign | 0x7c00);  // 65520 and above round to infinity
    if (magnitude < 0x38800000) {
        // Below 2^-14: adding 0.5 puts the last bit at 2^-24, the subnormal step, so the FPU does the rounding.
        const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
        return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000));
    }
    const std::uint32_t even = magnitude >> 13 & 1;
    return static_cast<std::uint16_t>(sign | ((magnitude - ((127 - 15) << 23) + 0xfff + even) >> 13));
}

float bfloat_to_float(std::uint16_t h) { return std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16); }

std::uint16_t float_to_bfloat(float f) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
    if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<std::uint16_t>(bits >> 16 | 64);
    return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace troupe::kernels
