// Quantizers of the types with blocks of 256 values: groups of 16 or 32 whose scales are small integers times one f16.
#include <algorithm>
#include <cstring>

#include "model/quant/level_fit.hpp"
#include "model/quant/quantize_row.hpp"

namespace troupe::model::detail {
namespace {

constexpr int block = 256;
constexpr float infinity = std::numeric_limits<float>::infinity();

int nearest_int(float v, int low, int high) {
    return std::clamp(static_cast<int>(std::lrint(std::clamp(v, -1e6f, 1e6f))), low, high);
}

float rounded(float v) { return kernels::half_to_float(kernels::float_to_half(v)); }

/// Keeps the N starts of a search with the least error.
template <int N, class Start> class most_promising {
 public:
    most_promising() { std::fill(error_, error_ + N, infinity); }
    void offer(float error, Start start) {
        for (int i = 0; i < N; ++i)
            if (error < error_[i]) std::swap(error, error_[i]), std::swap(start, start_[i]);
    }
    template <class F> void each(F&& f) const {
        for (int i = 0; i < N; ++i)
            if (error_[i] < infinity) f(start_[i]);
    }

 private:
    float error_[N];
    Start start_[N] = {};
};

// -- d * scale * level ------------------------------------------------------------------------------------------------

/// Low..High: range of the integer scales; Reach: how far from the nearest one to look.
template <class Levels, int N, int Low, int High, int Reach> class signed_block {
 public:
    static constexpr int groups = block / N;

    signed_block(const float* x, const float* w) {
        for (int j = 0; j < groups; ++j) g_[j] = make_group<N>(x + N * j, w + N * j);
        float extreme = 0;
        for (int j = 0; j < groups; ++j) {
            wanted_[j] = best_scale<Levels>(g_[j]);
            if (std::fabs(wanted_[j]) > std::fabs(extreme)) extreme = wanted_[j];
        }
        if (extreme == 0) return;
        most_promising<2, float> starts;
        for (const float end : {static_cast<float>(Low), static_cast<float>(High)})
            for (const float factor : {1.0f, 0.97f, 0.94f, 0.9f, 0.86f, 1.04f, 1.08f}) {
                const float d = rounded(extreme / (end * factor));
                if (d == 0 || !std::isfinite(d)) continue;
                float total = 0;
                for (int j = 0; j < groups; ++j)
                    total += error_at<Levels>(g_[j], d * static_cast<float>(nearest_int(wanted_[j] / d, Low, High)));
                starts.offer(total, d);
            }
        starts.each([&](float d) { refine(d); });
    }

    std::uint16_t d() const { return d_; }
    int scale(int j) const { return scale_[j]; }
    /// Codes of group j.
    void codes(int j, int* code) const {
        const float s = kernels::half_to_float(d_) * static_cast<float>(scale_[j]), inverse = s != 0 ? 1.0f / s : 0.0f;
        for (int i = 0; i < N; i += 4) {
            const v4 level = Levels::nearest(load4(g_[j].x + i) * inverse);
            for (int k = 0; k < 4; ++k) code[i + k] = Levels::code(level[k]);
        }
    }

 private:
    /// Integer scales for d, then d for those scales, until nothing gets better.
    void refine(float start) {
        int scale[groups];
        for (int round = 0; round < 3; ++round) {
            const std::uint16_t half = kernels::float_to_half(start);
            const float d = kernels::half_to_float(half);
            if (d == 0 || !std::isfinite(d)) return;
            float total = 0;
            double xl = 0, ll = 0;
            for (int j = 0; j < groups; ++j) {
                total += choose(j, d, scale[j]);
                const float s = d * static_cast<float>(scale[j]);
                const level_sums sums = sums_at<Levels>(g_[j], s != 0 ? 1.0f / s : 0.0f);
                xl += static_cast<double>(scale[j]) * sums.xl;
                ll += static_cast<double>(scale[j]) * scale[j] * sums.ll;
            }
            if (!(total < error_)) return;
            error_ = total;
            d_ = half;
            std::copy(scale, scale + groups, scale_);
            if (!(ll > 0)) return;
            start = static_cast<float>(xl / ll);
        }
    }

    float choose(int j, float d, int& chosen) const {
        const int nearest = nearest_int(wanted_[j] / d, Low, High);
        float least = infinity;
        const auto offer = [&](int s) {
            if (s < Low || s > High) return;
            const float e = error_at<Levels>(g_[j], d * static_cast<float>(s));
            if (e < least) least = e, chosen = s;
        };
        offer(nearest);
        for (int r = 1; r <= Reach; ++r) offer(nearest - r), offer(nearest + r);
        return least;
    }

    group<N> g_[groups];
    float wanted_[groups] = {};
    float error_ = infinity;
    std::uint16_t d_ = 0;
    int scale_[groups] = {};
};

// -- d * scale * q - dmin * min
// -----------------------------------------------------------------------------------------

/// High: largest q; Most: largest integer scale and minimum.
template <int High, int N, int Most> class affine_block {
 public:
    static constexpr int groups = block / N;

    affine_block(const float* x, const float* w) {
        float scale = 0, min = 0;
        for (int j = 0; j < groups; ++j) {
            g_[j] = make_group<N>(x + N * j, w + N * j);
            const affine_fit fit = best_affine<High>(g_[j], true);
            wanted_[j] = {fit.scale, -fit.offset};
            scale = std::max(scale, fit.scale);
            min = std::max(min, -fit.offset);
        }
        // Integer scales have few steps: another start finds another, often better, set of them.
        most_promising<(Most > 15 ? 1 : 3), real_pair> starts;
        for (const float a : {1.0f, 0.96f, 0.91f, 1.05f, 1.1f})
            for (const float b : {1.0f, 0.95f, 1.06f}) {
                const real_pair start{rounded(scale / (Most * a)), rounded(min / (Most * b))};
                float total = 0;
                for (int j = 0; j < groups; ++j) {
                    const kernels::scale_min f = nearest_fields(j, start);
                    total += affine_error<High>(
                        g_[j], start.scale * static_cast<float>(f.scale), -start.min * static_cast<float>(f.min));
                }
                starts.offer(total, start);
            }
        starts.each([&](real_pair start) { refine(start); });
    }

    std::uint16_t d() const { return d_; }
    std::uint16_t dmin() const { return dmin_; }
    int scale(int j) const { return fields_[j].scale; }
    int min(int j) const { return fields_[j].min; }
    void codes(int j, int* code) const {
        const float scale = kernels::half_to_float(d_) * static_cast<float>(fields_[j].scale);
        const float min = kernels::half_to_float(dmin_) * static_cast<float>(fields_[j].min);
        const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
        for (int i = 0; i < N; i += 4) {
            const v4 q = round4(clamp4((load4(g_[j].x + i) + min) * inverse, 0, High));
            for (int k = 0; k < 4; ++k) code[i + k] = static_cast<int>(q[k]);
        }
    }

 private:
    struct real_pair {
        float scale, min;
    };

    /// Normal equations of x ~ d * (scale * q) - dmin * min over the whole block.
    struct normal {
        double aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;
        void add(const group<N>& g, float d, float dmin, kernels::scale_min f) {
            const float scale = d * static_cast<float>(f.scale), min = dmin * static_cast<float>(f.min);
            const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
            v4 s1{}, sq{}, sqq{}, sx{}, sxq{};
            for (int i = 0; i < N; i += 4) {
                const v4 x = load4(g.x + i), w = load4(g.w + i);
                const v4 q = round4(clamp4((x + min) * inverse, 0, High)), wq = w * q;
                s1 += w, sq += wq, sqq += wq * q, sx += w * x, sxq += wq * x;
            }
            const double a = f.scale, b = f.min;
            aa += a * a * sum4(sqq), ab -= a * b * sum4(sq), bb += b * b * sum4(s1);
            xa += a * sum4(sxq), xb -= b * sum4(sx);
        }
        real_pair solve(real_pair old) const {
            const double determinant = aa * bb - ab * ab;
            if (determinant > 1e-9 * aa * bb) {
                const double d = (xa * bb - xb * ab) / determinant, dmin = (xb * aa - xa * ab) / determinant;
                if (d >= 0 && dmin >= 0) return {static_cast<float>(d), static_cast<float>(dmin)};
            }
            if (aa > 0 && xa > 0) return {static_cast<float>(xa / aa), old.min};
            return old;
        }
    };

    kernels::scale_min nearest_fields(int j, real_pair d) const {
        return {d.scale > 0 ? nearest_int(wanted_[j].scale / d.scale, 0, Most) : 0,
            d.min > 0 ? nearest_int(wanted_[j].min / d.min, 0, Most) : 0};
    }

    void refine(real_pair start) {
        kernels::scale_min fields[groups];
        for (int round = 0; round < 4; ++round) {
            const std::uint16_t d_half = kernels::float_to_half(start.scale);
            const std::uint16_t min_half = kernels::float_to_half(start.min);
            const float d = kernels::half_to_float(d_half), dmin = kernels::half_to_float(min_half);
            if (!std::isfinite(d) || !std::isfinite(dmin)) return;
            float total = 0;
            normal equations;
            for (int j = 0; j < groups; ++j) {
                total += choose(j, d, dmin, fields[j]);
                equations.add(g_[j], d, dmin, fields[j]);
            }
            if (!(total < error_)) return;
            error_ = total;
            d_ = d_half, dmin_ = min_half;
            std::copy(fields, fields + groups, fields_);
            start = equations.solve({d, dmin});
        }
    }

    /// The integers with the least error around the wanted ones; the minimum follows a changed scale, so its neighbours
    /// are tried with each.
    float choose(int j, float d, float dmin, kernels::scale_min& chosen) const {
        const auto [s0, m0] = nearest_fields(j, {d, dmin});
        float least = infinity;
        for (int s = std::max(0, s0 - 2); s <= std::min(Most, s0 + 2); ++s)
            for (int m = std::max(0, m0 - 2); m <= std::min(Most, m0 + 2); ++m) {
                const float e = affine_error<High>(g_[j], d * static_cast<float>(s), -dmin * static_cast<float>(m));
                if (e < least) least = e, chosen = {s, m};
            }
        return least;
    }

    group<N> g_[groups];
    real_pair wanted_[groups];
    float error_ = infinity;
    std::uint16_t d_ = 0, dmin_ = 0;
    kernels::scale_min fields_[groups] = {};
};

// -- layouts ----------------------------------------------------------------------------------------------------------

/// Eight scales and minima of 6 bits in 12 bytes.
template <class Fit> void put_k_scales(const Fit& fit, std::uint8_t* out) {
    for (int j = 0; j < 4; ++j) {
        out[j] = static_cast<std::uint8_t>(fit.scale(j) | fit.scale(j + 4) >> 4 << 6);
        out[j + 4] = static_cast<std::uint8_t>(fit.min(j) | fit.min(j + 4) >> 4 << 6);
        out[j + 8] = static_cast<std::uint8_t>((fit.scale(j + 4) & 15) | (fit.min(j + 4) & 15) << 4);
    }
}

/// Bit pair k of byte 32 h + l belongs to value 128 h + 32 k + l.
void put_pairs(const int* code, std::uint8_t* out) {
    for (int i = 0; i < block; ++i)
        out[i / 128 * 32 + i % 32] |= static_cast<std::uint8_t>((code[i] & 3) << i % 128 / 32 * 2);
}

/// Low nibbles of each 64 values in 32 bytes, the first 32 values in the low half.
void put_k_nibbles(const int* code, std::uint8_t* out) {
    for (int i = 0; i < block; ++i)
        out[i / 64 * 32 + i % 32] |= static_cast<std::uint8_t>((code[i] & 15) << i / 32 % 2 * 4);
}

/// Bit j of byte l for value 32 j + l.
void put_high_bits(const int* code, int bit, std::uint8_t* out) {
    for (int i = 0; i < block; ++i) out[i % 32] |= static_cast<std::uint8_t>((code[i] >> bit & 1) << i / 32);
}

template <class Fit> void all_codes(const Fit& fit, int* code) {
    for (int j = 0; j < Fit::groups; ++j) fit.codes(j, code + block / Fit::groups * j);
}

}  // namespace

void quantize_q2_k(const float* x, const float* w, std::uint8_t* out) {
    const affine_block<3, 16, 15> fit(x, w);
    int code[block];
    all_codes(fit, code);
    std::memset(out, 0, 84);
    for (int j = 0; j < 16; ++j) out[j] = static_cast<std::uint8_t>(fit.scale(j) | fit.min(j) << 4);
    put_pairs(code, out + 16);
    put_half(out + 80, fit.d());
    put_half(out + 82, fit.dmin());
}

void quantize_q3_k(const float* x, const float* w, std::uint8_t* out) {
    const signed_block<uniform_levels<-4, 3>, 16, -32, 31, 2> fit(x, w);
    int code[block];
    all_codes(fit, code);
    std::memset(out, 0, 110);
    put_high_bits(code, 2, out);
    put_pairs(code, out + 32);
    for (int j = 0; j < 16; ++j) {
        const int s = fit.scale(j) + 32;
        out[96 + j % 8] |= static_cast<std::uint8_t>((s & 15) << j / 8 * 4);
        out[104 + j % 4] |= static_cast<std::uint8_t>(s >> 4 << j / 4 * 2);
    }
    put_half(out + 108, fit.d());
}

void quantize_q4_k(const float* x, const float* w, std::uint8_t* out) {
    const affine_block<15, 32, 63> fit(x, w);
    int code[block];
    all_codes(fit, code);
    std::memset(out, 0, 144);
    put_half(out, fit.d());
    put_half(out + 2, fit.dmin());
    put_k_scales(fit, out + 4);
    put_k_nibbles(code, out + 16);
}

void quantize_q5_k(const float* x, const float* w, std::uint8_t* out) {
    const affine_block<31, 32, 63> fit(x, w);
    int code[block];
    all_codes(fit, code);
    std::memset(out, 0, 176);
    put_half(out, fit.d());
    put_half(out + 2, fit.dmin());
    put_k_scales(fit, out + 4);
    put_high_bits(code, 4, out + 16);
    put_k_nibbles(code, out + 48);
}

void quantize_q6_k(const float* x, const float* w, std::uint8_t* out) {
    const signed_block<uniform_levels<-32, 31>, 16, -128, 127, 4> fit(x, w);
    int code[block];
    all_codes(fit, code);
    std::memset(out, 0, 210);
    for (int i = 0; i < block; ++i) {
        const int half = i / 128, k = i % 128 / 32, l = i % 32;
        out[64 * half + l + 32 * (k & 1)] |= static_cast<std::uint8_t>((code[i] & 15) << (k >> 1) * 4);
        out[128 + 32 * half + l] |= static_cast<std::uint8_t>(code[i] >> 4 << 2 * k);
    }
    for (int j = 0; j < 16; ++j) out[192 + j] = static_cast<std::uint8_t>(fit.scale(j));
    put_half(out + 208, fit.d());
}

void quantize_iq4_xs(const float* x, const float* w, std::uint8_t* out) {
    const signed_block<iq4_level_set, 32, -32, 31, 2> fit(x, w);
    int code[block];
    all_codes(fit, code);
    std::memset(out, 0, 136);
    put_half(out, fit.d());
    for (int j = 0; j < 8; ++j) {
        const int s = fit.scale(j) + 32;
        out[2 + j / 4] |= static_cast<std::uint8_t>(s >> 4 << j % 4 * 2);
        out[4 + j / 2] |= static_cast<std::uint8_t>((s & 15) << j % 2 * 4);
        for (int l = 0; l < 16; ++l)
            out[8 + 16 * j + l] = static_cast<std::uint8_t>(code[32 * j + l] | code[32 * j + l + 16] << 4);
    }
}

}  // namespace troupe::model::detail
