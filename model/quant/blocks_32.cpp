// Quantizers of the types with blocks of 32 values.
#include <algorithm>
#include <cstring>

#include "model/quant/level_fit.hpp"
#include "model/quant/quantize_row.hpp"

namespace troupe::model::detail {
namespace {

constexpr int block = 32;

/// Codes 0..15 of 32 values, split: value j in the low nibble of byte j, value j + 16 in the high one.
void put_nibbles(const int* code, std::uint8_t* out) {
    for (int j = 0; j < block / 2; ++j) out[j] = static_cast<std::uint8_t>((code[j] & 15) | (code[j + 16] & 15) << 4);
}
/// Codes 0..31: fifth bits (4 bytes), then nibbles.
void put_five_bits(const int* code, std::uint8_t* out) {
    std::uint32_t high = 0;
    for (int j = 0; j < block; ++j) high |= static_cast<std::uint32_t>(code[j] >> 4) << j;
    std::memcpy(out, &high, sizeof high);
    put_nibbles(code, out + 4);
}

/// d * level: writes the codes, returns d.
template <class Levels> std::uint16_t one_scale(const float* x, const float* w, int* code) {
    const group<block> g = make_group<block>(x, w);
    const std::uint16_t half = best_half(best_scale<Levels>(g), [&](float d) { return error_at<Levels>(g, d); });
    const float d = kernels::half_to_float(half), inverse = d != 0 ? 1.0f / d : 0.0f;
    for (int i = 0; i < block; i += 4) {
        const v4 level = Levels::nearest(load4(x + i) * inverse);
        for (int j = 0; j < 4; ++j) code[i + j] = Levels::code(level[j]);
    }
    return half;
}

/// d * q + m: writes d, m and the codes.
template <int High> void scale_and_offset(const float* x, const float* w, int* code, std::uint8_t* out) {
    const group<block> g = make_group<block>(x, w);
    const affine_fit fit = best_affine<High>(g, false);
    const auto scale_for = [&](float m) {
        return best_half(fit.scale, [&](float d) { return affine_error<High>(g, d, m); });
    };
    const std::uint16_t offset =
        best_half(fit.offset, [&](float m) { return affine_error<High>(g, kernels::half_to_float(scale_for(m)), m); });
    const float m = kernels::half_to_float(offset);
    const std::uint16_t scale = scale_for(m);
    const float d = kernels::half_to_float(scale), inverse = d > 0 ? 1.0f / d : 0.0f;
    put_half(out, scale);
    put_half(out + 2, offset);
    for (int i = 0; i < block; i += 4) {
        const v4 q = round4(clamp4((load4(x + i) - m) * inverse, 0, High));
        for (int j = 0; j < 4; ++j) code[i + j] = static_cast<int>(q[j]);
    }
}

}  // namespace

void quantize_q4_0(const float* x, const float* w, std::uint8_t* out) {
    int code[block];
    put_half(out, one_scale<uniform_levels<-8, 7>>(x, w, code));
    put_nibbles(code, out + 2);
}

void quantize_q5_0(const float* x, const float* w, std::uint8_t* out) {
    int code[block];
    put_half(out, one_scale<uniform_levels<-16, 15>>(x, w, code));
    put_five_bits(code, out + 2);
}

void quantize_iq4_nl(const float* x, const float* w, std::uint8_t* out) {
    int code[block];
    put_half(out, one_scale<iq4_level_set>(x, w, code));
    put_nibbles(code, out + 2);
}

void quantize_q4_1(const float* x, const float* w, std::uint8_t* out) {
    int code[block];
    scale_and_offset<15>(x, w, code, out);
    put_nibbles(code, out + 4);
}

void quantize_q5_1(const float* x, const float* w, std::uint8_t* out) {
    int code[block];
    scale_and_offset<31>(x, w, code, out);
    put_five_bits(code, out + 4);
}

/// The errors are so small beside the values that only errors themselves can be compared, not gains: every candidate is
/// rounded to f16 and tried. Scales a little above peak / 127 cost little and let the values fall on better places.
void quantize_q8_0(const float* x, const float* w, std::uint8_t* out) {
    using levels = uniform_levels<-128, 127>;
    const group<block> g = make_group<block>(x, w);
    std::uint16_t best = kernels::float_to_half(g.peak / 127);
    float least = error_at<levels>(g, kernels::half_to_float(best));
    for (int i = 0; i <= 60; ++i)
        for (const float sign : {1.0f, -1.0f}) {
            const std::uint16_t half = kernels::float_to_half(sign * g.peak / (128.0f - 0.2f * static_cast<float>(i)));
            const float e = error_at<levels>(g, kernels::half_to_float(half));
            if (e < least) least = e, best = half;
        }
    put_half(out, best);
    const float d = kernels::half_to_float(best), inverse = d != 0 ? 1.0f / d : 0.0f;
    for (int i = 0; i < block; i += 4) {
        const v4 level = levels::nearest(load4(x + i) * inverse);
        for (int j = 0; j < 4; ++j) out[2 + i + j] = static_cast<std::uint8_t>(static_cast<std::int8_t>(level[j]));
    }
}

}  // namespace troupe::model::detail
