// Block geometry of every element type, exact dequantization, and the 16-bit float conversions (software: any x86-64).
#include "kernels/types.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "core/check.hpp"
#include "kernels/block_fields.hpp"

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
    {dtype::q5_1, "q5_1", 32, 24, true},
    {dtype::q2_k, "q2_k", 256, 84, true},
    {dtype::q3_k, "q3_k", 256, 110, true},
    {dtype::iq4_nl, "iq4_nl", 32, 18, true},
    {dtype::iq4_xs, "iq4_xs", 256, 136, true},
    {dtype::mxfp4, "mxfp4", 32, 17, true},
    {dtype::awq_32, "awq_32", 32, 20, true},
    {dtype::awq_64, "awq_64", 64, 36, true},
    {dtype::awq_128, "awq_128", 128, 68, true},
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
const std::uint8_t* fields(const std::byte* p) { return reinterpret_cast<const std::uint8_t*>(p); }

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

/// Fifth bits (4 bytes, bit i for value i), 16 bytes of nibbles as in q4_0: 32 levels.
void five_bit_levels(const std::byte* b, int q[32]) {
    std::uint32_t high;
    std::memcpy(&high, b, sizeof high);
    for (int j = 0; j < 16; ++j) {
        q[j] = (byte_at(b, 4 + j) & 15) | static_cast<int>((high >> j & 1) << 4);
        q[j + 16] = (byte_at(b, 4 + j) >> 4) | static_cast<int>((high >> (j + 16) & 1) << 4);
    }
}

/// d (2), five-bit levels (20); offset 16.
void block_q5_0(const std::byte* b, float* y) {
    const float d = half_at(b);
    int q[32];
    five_bit_levels(b + 2, q);
    for (int j = 0; j < 32; ++j) y[j] = static_cast<float>(q[j] - 16) * d;
}

/// d (2), min (2), five-bit levels (20).
void block_q5_1(const std::byte* b, float* y) {
    const float d = half_at(b), m = half_at(b + 2);
    int q[32];
    five_bit_levels(b + 4, q);
    for (int j = 0; j < 32; ++j) y[j] = static_cast<float>(q[j]) * d + m;
}

/// d (2), 32 signed bytes.
void block_q8_0(const std::byte* b, float* y) {
    const float d = half_at(b);
    for (int j = 0; j < 32; ++j) y[j] = static_cast<float>(static_cast<std::int8_t>(byte_at(b, 2 + j))) * d;
}

/// d (2), dmin (2), scales (12), 128 bytes: each 32 bytes hold 64 values, the low nibbles first.
void block_q4_k(const std::byte* b, float* y) {
    const float d = half_at(b), dmin = half_at(b + 2);
    const std::byte* q = b + 16;
    for (int j = 0; j < 8; ++j) {
        const scale_min sm = k_scale_min(fields(b + 4), j);
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
        const scale_min sm = k_scale_min(fields(b + 4), j);
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

/// nibbles (16: scale low, min high, of 16 values each), 64 bytes: each 32 bytes hold 128 values, bit pair k of byte l
/// for value 32 k + l; d (2), dmin (2).
void block_q2_k(const std::byte* b, float* y) {
    const float d = half_at(b + 80), dmin = half_at(b + 82);
    for (int j = 0; j < 16; ++j) {
        const int fields = byte_at(b, j), shift = j % 8 / 2 * 2;
        const float scale = d * static_cast<float>(fields & 15), min = dmin * static_cast<float>(fields >> 4);
        const std::byte* q = b + 16 + j / 8 * 32 + j % 2 * 16;
        for (int l = 0; l < 16; ++l) y[16 * j + l] = scale * static_cast<float>(byte_at(q, l) >> shift & 3) - min;
    }
}

/// third bits (32: bit j of byte l for value 32 j + l), 64 bytes as in q2_k, scales (12), d (2); offset 4.
void block_q3_k(const std::byte* b, float* y) {
    const float d = half_at(b + 108);
    for (int j = 0; j < 16; ++j) {
        const float scale = d * static_cast<float>(q3_k_scale(fields(b + 96), j));
        const int shift = j % 8 / 2 * 2, first = j % 2 * 16;
        const std::byte* q = b + 32 + j / 8 * 32 + first;
        for (int l = 0; l < 16; ++l) {
            const int high = byte_at(b, first + l) >> j / 2 & 1;
            y[16 * j + l] = scale * static_cast<float>(((byte_at(q, l) >> shift & 3) | high << 2) - 4);
        }
    }
}

/// 16 bytes: the level of value j is named by the low nibble of byte j, that of value j + 16 by the high one.
void named_levels(const std::byte* q, const std::int8_t* levels, float scale, float* y) {
    for (int j = 0; j < 16; ++j) {
        y[j] = scale * static_cast<float>(levels[byte_at(q, j) & 15]);
        y[j + 16] = scale * static_cast<float>(levels[byte_at(q, j) >> 4]);
    }
}

/// d (2), 16 bytes of level names.
void block_iq4_nl(const std::byte* b, float* y) { named_levels(b + 2, iq4_levels, half_at(b), y); }

/// d (2), scales (6), 8 times 16 bytes of level names.
void block_iq4_xs(const std::byte* b, float* y) {
    const float d = half_at(b);
    for (int j = 0; j < 8; ++j) {
        const float scale = d * static_cast<float>(iq4_xs_scale(fields(b + 2), j));
        named_levels(b + 8 + 16 * j, iq4_levels, scale, y + 32 * j);
    }
}

/// exponent (1), 16 bytes of level names.
void block_mxfp4(const std::byte* b, float* y) { named_levels(b + 1, mxfp4_levels, mxfp4_scale(byte_at(b, 0)), y); }

/// d (2), zero (1), unused (1), then 16 bytes for each 32 values, nibbles as in q4_0: (level - zero) * d, exact in f32.
template <int Group> void block_awq(const std::byte* b, float* y) {
    const float d = half_at(b);
    const int zero = byte_at(b, 2);
    for (int i = 0; i < Group; ++i) {
        const int pair = byte_at(b, 4 + i / 32 * 16 + i % 16);
        y[i] = static_cast<float>((i % 32 < 16 ? pair & 15 : pair >> 4) - zero) * d;
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
    case dtype::q5_1:
        return each_block<block_q5_1>(t, src, n, dst);
    case dtype::q2_k:
        return each_block<block_q2_k>(t, src, n, dst);
    case dtype::q3_k:
        return each_block<block_q3_k>(t, src, n, dst);
    case dtype::iq4_nl:
        return each_block<block_iq4_nl>(t, src, n, dst);
    case dtype::iq4_xs:
        return each_block<block_iq4_xs>(t, src, n, dst);
    case dtype::mxfp4:
        return each_block<block_mxfp4>(t, src, n, dst);
    case dtype::awq_32:
        return each_block<block_awq<32>>(t, src, n, dst);
    case dtype::awq_64:
        return each_block<block_awq<64>>(t, src, n, dst);
    case dtype::awq_128:
        return each_block<block_awq<128>>(t, src, n, dst);
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
