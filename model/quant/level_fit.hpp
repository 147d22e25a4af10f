// Least-squares fits of a group of values to a set of levels: the search that every quantized type is built from. Four
// floats at a time with the compiler's portable vectors, so that sums have one order on every processor. Internal to
// quant/.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/block_fields.hpp"

namespace troupe::model::detail {

typedef float v4 __attribute__((vector_size(16)));

inline v4 load4(const float* p) {
    v4 v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
inline float sum4(v4 v) { return (v[0] + v[2]) + (v[1] + v[3]); }
inline v4 clamp4(v4 v, float low, float high) {
    const v4 l = v4{} + low, h = v4{} + high;
    v = v < l ? l : v;
    return v > h ? h : v;
}
/// To the nearest integer, ties to even; |v| < 2^22.
inline v4 round4(v4 v) {
    constexpr float magic = 12582912.0f;  // 1.5 * 2^23: its last bit is worth 1
    return (v + magic) - magic;
}

/// Levels Low..High; a code counts from Low.
template <int Low, int High> struct uniform_levels {
    static v4 nearest(v4 v) { return round4(clamp4(v, Low, High)); }
    static int code(float level) { return static_cast<int>(level) - Low; }
    /// What the largest value of a group may become, in levels, when scales are searched.
    static constexpr float reach_low = -Low * (High < 8 ? 0.55f : High < 16 ? 0.75f : 0.82f), reach_high = -Low + 1.3f;
    static constexpr int steps = 26;
};

/// Nearest of iq4_levels for v in [k / 2, (k + 1) / 2), k = -256..255: borders lie at multiples of a half.
struct iq4_table {
    float level[512];
    constexpr iq4_table() : level() {
        for (int k = -256; k < 256; ++k) {
            int best = 0;
            for (int i = 1; i < 16; ++i)
                if (2 * k + 1 > 2 * (kernels::iq4_levels[i - 1] + kernels::iq4_levels[i])) best = i;
            level[k + 256] = kernels::iq4_levels[best];
        }
    }
};
inline constexpr iq4_table iq4_nearest;

/// The levels of iq4_nl and iq4_xs.
struct iq4_level_set {
    static v4 nearest(v4 v) {
        typedef std::int32_t i4 __attribute__((vector_size(16)));
        const i4 at = __builtin_convertvector(clamp4(v, -127.5f, 127.5f) * 2.0f + 256.0f, i4);
        return v4{
            iq4_nearest.level[at[0]], iq4_nearest.level[at[1]], iq4_nearest.level[at[2]], iq4_nearest.level[at[3]]};
    }
    static int code(float level) {
        int i = 0;
        while (static_cast<float>(kernels::iq4_levels[i]) < level) ++i;
        return i;
    }
    static constexpr float reach_low = 84.0f, reach_high = 152.0f;
    static constexpr int steps = 26;
};

/// One group: values, the weights of their squared errors, and the largest |value|.
template <int N> struct group {
    const float* x;
    const float* w;
    float peak;
};

template <int N> group<N> make_group(const float* x, const float* w) {
    float peak = 0;
    for (int i = 0; i < N; ++i) peak = std::fmax(peak, std::fabs(x[i]));
    return {x, w, peak};
}

/// Sums of w * x * level and w * level^2 with the levels nearest to x * inverse.
struct level_sums {
    float xl, ll;
    float scale() const { return ll > 0 ? xl / ll : 0.0f; }
    float gain() const { return ll > 0 ? xl * xl / ll : 0.0f; }  ///< sum of w * x^2 minus the squared error
};
template <class Levels, int N> level_sums sums_at(const group<N>& g, float inverse) {
    v4 xl{}, ll{};
    for (int i = 0; i < N; i += 4) {
        const v4 x = load4(g.x + i), level = Levels::nearest(x * inverse), wl = load4(g.w + i) * level;
        xl += wl * x;
        ll += wl * level;
    }
    return {sum4(xl), sum4(ll)};
}

/// Weighted squared error of x against scale * (nearest level).
template <class Levels, int N> float error_at(const group<N>& g, float scale) {
    const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
    v4 sum{};
    for (int i = 0; i < N; i += 4) {
        const v4 x = load4(g.x + i), e = x - scale * Levels::nearest(x * inverse);
        sum += load4(g.w + i) * e * e;
    }
    return sum4(sum);
}

/// The scale (of either sign) with the least weighted squared error: a grid over what the largest value may become,
/// then alternating least squares.
template <class Levels, int N> float best_scale(const group<N>& g) {
    if (!(g.peak > 0)) return 0;
    float best_gain = -1, scale = 0;
    const auto offer = [&](float inverse) {
        const level_sums s = sums_at<Levels>(g, inverse);
        if (s.gain() <= best_gain) return false;
        best_gain = s.gain();
        scale = s.scale();
        return true;
    };
    // Beyond reach_high the largest value is cut off: it pays when the weights say that it matters little.
    constexpr float step = (Levels::reach_high - Levels::reach_low) / Levels::steps;
    for (int i = 0; i <= Levels::steps; ++i)
        for (const float sign : {1.0f, -1.0f})
            offer(sign * (Levels::reach_low + step * static_cast<float>(i)) / g.peak);
    for (const float factor : {1.1f, 1.25f, 1.45f, 1.7f, 2.0f})
        for (const float sign : {1.0f, -1.0f}) offer(sign * factor * Levels::reach_high / g.peak);
    for (int i = 0; i < 4 && scale != 0; ++i)
        if (!offer(1.0f / scale)) break;
    return scale;
}

/// x ~ scale * q + offset with q in 0..High.
struct affine_fit {
    float scale = 0, offset = 0, error = std::numeric_limits<float>::infinity();
};

/// Least squares for the q nearest to (x - offset) * inverse. With `below_zero` the offset must not be positive.
template <int High, int N> affine_fit fit_affine(const group<N>& g, float inverse, float offset, bool below_zero) {
    v4 s1{}, sx{}, sq{}, sqq{}, sxq{}, sxx{};
    for (int i = 0; i < N; i += 4) {
        const v4 x = load4(g.x + i), w = load4(g.w + i), q = round4(clamp4((x - offset) * inverse, 0, High));
        const v4 wx = w * x, wq = w * q;
        s1 += w, sx += wx, sq += wq, sqq += wq * q, sxq += wx * q, sxx += wx * x;
    }
    const double n = sum4(s1), x1 = sum4(sx), q1 = sum4(sq), qq = sum4(sqq), xq = sum4(sxq), xx = sum4(sxx);
    const double determinant = n * qq - q1 * q1;
    double scale = determinant > 1e-9 * n * qq ? (n * xq - x1 * q1) / determinant : 0.0;
    double base = n > 0 ? (x1 - scale * q1) / n : 0.0;
    if (below_zero && base > 0) base = 0, scale = qq > 0 ? xq / qq : 0.0;
    if (scale < 0) scale = 0, base = n > 0 ? x1 / n : 0.0;
    if (below_zero && base > 0) base = 0;
    const double error =
        xx - 2 * scale * xq - 2 * base * x1 + scale * scale * qq + 2 * scale * base * q1 + base * base * n;
    return {static_cast<float>(scale), static_cast<float>(base), static_cast<float>(error)};
}

/// Weighted squared error of x against scale * q + offset.
template <int High, int N> float affine_error(const group<N>& g, float scale, float offset) {
    const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
    v4 sum{};
    for (int i = 0; i < N; i += 4) {
        const v4 x = load4(g.x + i) - offset, e = x - scale * round4(clamp4(x * inverse, 0, High));
        sum += load4(g.w + i) * e * e;
    }
    return sum4(sum);
}

/// Scale >= 0 and offset with the least weighted squared error: a grid over how far the ends move inward, then
/// alternating least squares.
template <int High, int N> affine_fit best_affine(const group<N>& g, bool below_zero) {
    float low = g.x[0], high = g.x[0];
    for (int i = 1; i < N; ++i) low = std::fmin(low, g.x[i]), high = std::fmax(high, g.x[i]);
    if (below_zero) low = std::fmin(low, 0.0f);
    const float step = (high - low) / High;
    affine_fit best;
    const auto offer = [&](float inverse, float offset) {
        const affine_fit f = fit_affine<High>(g, inverse, offset, below_zero);
        if (!(f.error < best.error)) return false;
        best = f;
        return true;
    };
    offer(0.0f, low);
    if (!(step > 0)) return best;
    for (const float a : {-0.4f, -0.15f, 0.1f, 0.35f, 0.6f, 0.9f})
        for (const float b : {-0.4f, -0.15f, 0.1f, 0.35f, 0.6f, 0.9f})
            offer(High / ((static_cast<float>(High) - a - b) * step), low + a * step);
    for (int i = 0; i < 4 && best.scale > 0; ++i)
        if (!offer(1.0f / best.scale, best.offset)) break;
    return best;
}

}  // namespace troupe::model::detail
