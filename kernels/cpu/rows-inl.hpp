// Element-wise and row kernels. Tails run the same code on zero-padded lanes, so a value's bits do not depend on its
// place. Included once by each kernels_<isa>.cpp after math-inl.hpp.

namespace troupe::kernels::TROUPE_ISA {
namespace {

/// Calls body(offset, count) for every sixteen values and for the rest. `count` is 16 but for the last call.
template <class Body> inline void each_vector(std::int64_t n, Body body) {
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) body(i, lanes);
    if (i < n) body(i, static_cast<int>(n - i));
}
inline vf load_some(const float* p, int count) { return count == lanes ? load(p) : load_n(p, count); }
inline void store_some(float* p, vf a, int count) { count == lanes ? store(p, a) : store_n(p, a, count); }

double sum_squares(const float* x, std::int64_t n) {
    vd sums = zero_d();
    each_vector(n, [&](std::int64_t i, int count) { sums = add_squares(sums, load_some(x + i, count)); });
    return reduce_add(sums);
}

void scale_row(const float* x, float factor, const float* w, std::int64_t n, float* y) {
    const vf f = set1(factor);
    each_vector(n, [&](std::int64_t i, int count) {
        const vf scaled = mul(load_some(x + i, count), f);
        store_some(y + i, w ? mul(scaled, load_some(w + i, count)) : scaled, count);
    });
}

void add_values(float* x, const float* y, std::int64_t n) {
    each_vector(n, [&](std::int64_t i, int count) {
        store_some(x + i, add(load_some(x + i, count), load_some(y + i, count)), count);
    });
}

void add_scaled(float* y, const float* x, float factor, std::int64_t n) {
    const vf f = set1(factor);
    each_vector(n, [&](std::int64_t i, int count) {
        store_some(y + i, fma(load_some(x + i, count), f, load_some(y + i, count)), count);
    });
}

/// x / (1 + e^-z): silu with z = x; tanh-GELU with z = 2 sqrt(2 / pi) (x + 0.044715 x^3), which is the same function as
/// x / 2 (1 + tanh(z / 2)) without the cancellation for negative x.
inline vf sigmoid_times(vf x, vf z) { return div(x, add(set1(1.0f), exp(sub(zero(), z)))); }

void gated(gate kind, const float* g, const float* u, std::int64_t n, float* y) {
    const vf linear = set1(1.5957691216057308f), cubic = set1(1.5957691216057308f * 0.044715f);
    const bool gelu = kind == gate::gelu_tanh;
    each_vector(n, [&](std::int64_t i, int count) {
        const vf x = load_some(g + i, count);
        const vf z = gelu ? mul(x, fma(mul(x, x), cubic, linear)) : x;
        store_some(y + i, mul(sigmoid_times(x, z), load_some(u + i, count)), count);
    });
}

inline vf cap_values(vf x, vf cap, vf inverse) { return mul(cap, tanh(mul(x, inverse))); }

void softcap(float* x, std::int64_t n, float cap) {
    const vf c = set1(cap), inverse = set1(1.0f / cap);
    each_vector(n,
        [&](std::int64_t i, int count) { store_some(x + i, cap_values(load_some(x + i, count), c, inverse), count); });
}

inline void rope_head_halves(float* x, int half, const float* cosines) {
    each_vector(half, [&](std::int64_t j, int count) {
        const vf a = load_some(x + j, count), b = load_some(x + half + j, count);
        const vf c = load_some(cosines + j, count), s = load_some(cosines + half + j, count);
        store_some(x + j, fnma(b, s, mul(a, c)), count);
        store_some(x + half + j, fma(a, s, mul(b, c)), count);
    });
}

inline void rope_head_adjacent(float* x, int half, const float* cosines) {
    for (int j = 0; j < half; j += 8) {
        const int count = half - j < 8 ? half - j : 8;
        const vf v = load_some(x + 2 * j, 2 * count);
        const vf c = load_pairs(cosines + j, count), s = load_pairs(cosines + half + j, count);
        store_some(x + 2 * j, fmaddsub(v, c, mul(swap_pairs(v), s)), 2 * count);
    }
}

void rope_row(float* x, int n_heads, int head_dim, int half, rope_pairs pairs, const float* angles) {
    for (int h = 0; h < n_heads; ++h) {
        if (pairs == rope_pairs::adjacent)
            rope_head_adjacent(x + h * head_dim, half, angles);
        else
            rope_head_halves(x + h * head_dim, half, angles);
    }
}

/// x * 0 is 0 for finite x and NaN else, and NaN stays in the sum.
bool all_finite(const float* x, std::int64_t n) {
    vf sum = zero();
    each_vector(n, [&](std::int64_t i, int count) { sum = fma(load_some(x + i, count), zero(), sum); });
    return reduce_add(sum) == 0.0f;
}

void exp_values(const float* x, std::int64_t n, float* y) {
    each_vector(n, [&](std::int64_t i, int count) { store_some(y + i, exp(load_some(x + i, count)), count); });
}

void tanh_values(const float* x, std::int64_t n, float* y) {
    each_vector(n, [&](std::int64_t i, int count) { store_some(y + i, tanh(load_some(x + i, count)), count); });
}

}  // namespace
}  // namespace troupe::kernels::TROUPE_ISA
