// The algorithm of `linear`, once for every instruction set: included inside `namespace troupe::kernels::<isa> {
// namespace {` after that ISA's simd header. Lane = output row, K ascending, one accumulate a block of 32, the same for
// every tile height: a row's bits do not depend on the batch (design section 8, rules 1 to 3).
//
// What may not enter: anything with a symbol of its own (standard library, inline functions of other headers).

#include "kernels/cpu/quantize-inl.hpp"

// -- compile-time loops ---------------------------------------------------------------------------
template <int I>
struct index {
    static constexpr int value = I;
};
template <int... I>
struct indices {};

template <class F, int... I>
TROUPE_INLINE void repeat_over(indices<I...>, F&& f) {
    (f(index<I>{}), ...);
}
/// f(index<0>), f(index<1>), ... N times, unrolled.
template <int N, class F>
TROUPE_INLINE void repeat(F&& f) {
    if constexpr (N == 1) repeat_over(indices<0>{}, f);
    if constexpr (N == 2) repeat_over(indices<0, 1>{}, f);
    if constexpr (N == 3) repeat_over(indices<0, 1, 2>{}, f);
    if constexpr (N == 4) repeat_over(indices<0, 1, 2, 3>{}, f);
    if constexpr (N == 8) repeat_over(indices<0, 1, 2, 3, 4, 5, 6, 7>{}, f);
    static_assert(N <= 4 || N == 8);
}

// -- weights --------------------------------------------------------------------------------------
inline constexpr int vector_bytes = 4 * lanes;

/// Calls f(index<Q>, weights) for the 8 quads of a block of 32, unpacked to bytes. `Bits` as stored; layout in
/// pack.hpp.
template <int Bits, class F>
TROUPE_INLINE void each_quad(const std::byte* p, F&& f) {
    if constexpr (Bits == 8) {
        repeat<8>([&](auto q) TROUPE_FORCE { f(q, load_bytes(p + q.value * vector_bytes)); });
        return;
    }
    vi upper[2] = {};
    if constexpr (Bits >= 5) upper[0] = load_bytes(p + 4 * vector_bytes);
    if constexpr (Bits == 6) upper[1] = load_bytes(p + 5 * vector_bytes);
    repeat<8>([&](auto q) TROUPE_FORCE {
        constexpr int Q = decltype(q)::value;
        vi w = field<Q % 2 * 4>(load_bytes(p + Q / 2 * vector_bytes), 15);
        if constexpr (Bits == 5) w = bit_or(w, field<Q - 4>(upper[0], 0x10));
        if constexpr (Bits == 6) w = bit_or(w, field<Q % 4 * 2 - 4>(upper[Q / 4], 0x30));
        f(q, w);
    });
}

// -- formats: how a block's scales are read, and the one accumulate of each kind -----------------------
// `bits`: of a level; `subs`: blocks of 32 that share the scales of one open(); `value_bytes`: of a block of 32;
// `scale_bytes`: of one open(). A format is opened, then for each block: select(sub), dots, finish.

/// acc + dw * (da0 * isum0 + da1 * isum1): the only place where a quantized product meets float.
TROUPE_INLINE vf accumulate(vf acc, vf dw, const act_block& a, vi isum0, vi isum1) {
    const vf first = mul(broadcast(a.d[0]), to_float(isum0));
    return fma(dw, fma(broadcast(a.d[1]), to_float(isum1), first), acc);
}

/// What a stored level stands for in the dot product: itself ...
struct plain_levels {
    TROUPE_INLINE static vi levels(vi stored) { return stored; }
};
/// ... or the signed byte it names in a set of 16.
template <const std::int8_t (&Set)[16]>
struct named_levels {
    TROUPE_INLINE static vi levels(vi names) { return look_up(Set, names); }
};

/// Takes away what offset_q8 has added to signed weights; `centre` is 32 * the sum of the activations.
TROUPE_INLINE vi signed_sum(vi sum, std::int32_t centre) {
    return offset_q8 ? sub_i32(sum, shift_left_i32<2>(broadcast_i32(centre))) : sum;
}

/// acc + d * (signed sums): q8_0 and the types with named levels.
TROUPE_INLINE vf accumulate_signed(vf acc, vf d, const dot32_signed& s, const act_block& a) {
    return accumulate(acc, d, a, signed_sum(s.sum[0], a.centre[0]), signed_sum(s.sum[1], a.centre[1]));
}

/// q4_0, q5_0: d * (level - 2^(Bits - 1)).
template <int Bits>
struct centred_format : plain_levels {
    static constexpr int bits = Bits, subs = 1, value_bytes = vector_bytes * (Bits == 4 ? 4 : 5);
    static constexpr int scale_bytes = 2 * lanes;
    using dot = dot32<Bits>;
    vf d, m;
    TROUPE_INLINE void open(const std::byte* s) { d = load_half(s), m = mul(d, broadcast(1 << (Bits - 1))); }
    TROUPE_INLINE void select(const std::byte*, int) {}
    TROUPE_INLINE vf finish(vf acc, const dot& s, const act_block& a) const {
        return fnma(m, broadcast(a.d_sum), accumulate(acc, d, a, s.sum[0], s.sum[1]));
    }
};

/// awq_*: d * (level - zero), one scale and zero for Subs blocks. d * zero (11 + 4 bits) is exact.
template <int Subs>
struct awq_format : plain_levels {
    static constexpr int bits = 4, subs = Subs, value_bytes = vector_bytes * 4, scale_bytes = 3 * lanes;
    using dot = dot32<4>;
    vf d, m;
    TROUPE_INLINE void open(const std::byte* s) { d = load_half(s), m = mul(d, load_u8(s + 2 * lanes)); }
    TROUPE_INLINE void select(const std::byte*, int) {}
    TROUPE_INLINE vf finish(vf acc, const dot& s, const act_block& a) const {
        return fnma(m, broadcast(a.d_sum), accumulate(acc, d, a, s.sum[0], s.sum[1]));
    }
};

/// q4_1, q5_1: d * level + m.
template <int Bits>
struct affine_format : plain_levels {
    static constexpr int bits = Bits, subs = 1, value_bytes = vector_bytes * (Bits == 4 ? 4 : 5);
    static constexpr int scale_bytes = 4 * lanes;
    using dot = dot32<Bits>;
    vf d, m;
    TROUPE_INLINE void open(const std::byte* s) { d = load_half(s), m = load_half(s + 2 * lanes); }
    TROUPE_INLINE void select(const std::byte*, int) {}
    TROUPE_INLINE vf finish(vf acc, const dot& s, const act_block& a) const {
        return fma(m, broadcast(a.d_sum), accumulate(acc, d, a, s.sum[0], s.sum[1]));
    }
};

/// q8_0: d * w.
struct q8_0_format : plain_levels {
    static constexpr int bits = 8, subs = 1, value_bytes = vector_bytes * 8, scale_bytes = 2 * lanes;
    using dot = dot32_signed;
    vf d;
    TROUPE_INLINE void open(const std::byte* s) { d = load_half(s); }
    TROUPE_INLINE void select(const std::byte*, int) {}
    TROUPE_INLINE vf finish(vf acc, const dot& s, const act_block& a) const { return accumulate_signed(acc, d, s, a); }
};

/// iq4_nl: d * level[name].
struct iq4_nl_format : named_levels<iq4_levels> {
    static constexpr int bits = 4, subs = 1, value_bytes = vector_bytes * 4, scale_bytes = 2 * lanes;
    using dot = dot32_signed;
    vf d;
    TROUPE_INLINE void open(const std::byte* s) { d = load_half(s); }
    TROUPE_INLINE void select(const std::byte*, int) {}
    TROUPE_INLINE vf finish(vf acc, const dot& s, const act_block& a) const { return accumulate_signed(acc, d, s, a); }
};

/// mxfp4: d * level[name], d a power of two.
struct mxfp4_format : named_levels<mxfp4_levels> {
    static constexpr int bits = 4, subs = 1, value_bytes = vector_bytes * 4, scale_bytes = 4 * lanes;
    using dot = dot32_signed;
    vf d;
    TROUPE_INLINE void open(const std::byte* s) { d = load(reinterpret_cast<const float*>(s)); }
    TROUPE_INLINE void select(const std::byte*, int) {}
    TROUPE_INLINE vf finish(vf acc, const dot& s, const act_block& a) const { return accumulate_signed(acc, d, s, a); }
};

/// iq4_xs: d * scale * level[name]. The product d * scale (11 + 6 bits) is exact.
struct iq4_xs_format : named_levels<iq4_levels> {
    static constexpr int bits = 4, subs = 8, value_bytes = vector_bytes * 4;
    static constexpr int scale_bytes = 2 * lanes + subs * lanes;
    using dot = dot32_signed;
    vf d_all, d;
    TROUPE_INLINE void open(const std::byte* s) { d_all = load_half(s); }
    TROUPE_INLINE void select(const std::byte* s, int sub) { d = mul(d_all, load_i8(s + (2 + sub) * lanes)); }
    TROUPE_INLINE vf finish(vf acc, const dot& s, const act_block& a) const { return accumulate_signed(acc, d, s, a); }
};

/// q4_k, q5_k: d * scale * level - dmin * min. The products d * scale and dmin * min (11 + 6 bits) are exact.
template <int Bits>
struct k_format : plain_levels {
    static constexpr int bits = Bits, subs = 8, value_bytes = vector_bytes * (Bits == 4 ? 4 : 5);
    static constexpr int scale_bytes = 4 * lanes + subs * 2 * lanes;
    using dot = dot32<Bits>;
    vf d_all, min_all, d, m;
    TROUPE_INLINE void open(const std::byte* s) { d_all = load_half(s), min_all = load_half(s + 2 * lanes); }
    TROUPE_INLINE void select(const std::byte* s, int sub) {
        const std::byte* p = s + 4 * lanes + sub * 2 * lanes;
        d = mul(d_all, load_u8(p)), m = mul(min_all, load_u8(p + lanes));
    }
    TROUPE_INLINE vf finish(vf acc, const dot& s, const act_block& a) const {
        return fnma(m, broadcast(a.d_sum), accumulate(acc, d, a, s.sum[0], s.sum[1]));
    }
};

/// q6_k, q3_k: d * scale[16 values] * (level - Centre). The product d * scale (11 + 7 bits) is exact.
template <int Bits, int Centre>
struct k_signed_format : plain_levels {
    static constexpr int bits = Bits, subs = 8, value_bytes = vector_bytes * (Bits == 4 ? 4 : 6);
    static constexpr int scale_bytes = 2 * lanes + subs * 2 * lanes;
    using dot = dot32<Bits>;
    vf d_all, d[2];
    TROUPE_INLINE void open(const std::byte* s) { d_all = load_half(s); }
    TROUPE_INLINE void select(const std::byte* s, int sub) {
        const std::byte* p = s + 2 * lanes + sub * 2 * lanes;
        d[0] = mul(d_all, load_i8(p)), d[1] = mul(d_all, load_i8(p + lanes));
    }
    TROUPE_INLINE vf finish(vf acc, const dot& s, const act_block& a) const {
        static_assert(32 % Centre == 0);  // act_block::centre is a multiple of 32
        const vi sum0 = sub_i32(s.sum[0], broadcast_i32(a.centre[0] / (32 / Centre)));
        const vi sum1 = sub_i32(s.sum[1], broadcast_i32(a.centre[1] / (32 / Centre)));
        acc = fma(d[0], mul(broadcast(a.d[0]), to_float(sum0)), acc);
        return fma(d[1], mul(broadcast(a.d[1]), to_float(sum1)), acc);
    }
};

/// q2_k: d * scale[16 values] * level - dmin * min[16 values]. Both products of scales (11 + 4 bits) are exact.
struct q2_k_format : plain_levels {
    static constexpr int bits = 4, subs = 8, value_bytes = vector_bytes * 4;
    static constexpr int scale_bytes = 4 * lanes + subs * 4 * lanes;
    using dot = dot32<4>;
    vf d_all, min_all, d[2], m[2];
    TROUPE_INLINE void open(const std::byte* s) { d_all = load_half(s), min_all = load_half(s + 2 * lanes); }
    TROUPE_INLINE void select(const std::byte* s, int sub) {
        const std::byte* p = s + 4 * lanes + sub * 4 * lanes;
        d[0] = mul(d_all, load_u8(p)), d[1] = mul(d_all, load_u8(p + lanes));
        m[0] = mul(min_all, load_u8(p + 2 * lanes)), m[1] = mul(min_all, load_u8(p + 3 * lanes));
    }
    TROUPE_INLINE vf finish(vf acc, const dot& s, const act_block& a) const {
        for (int h = 0; h < 2; ++h) {
            const float sum = a.d[h] * (static_cast<float>(a.centre[h]) * 0x1p-5f);
            acc = fma(d[h], mul(broadcast(a.d[h]), to_float(s.sum[h])), acc);
            acc = fnma(m[h], broadcast(sum), acc);
        }
        return acc;
    }
};

// -- output ---------------------------------------------------------------------------------------
/// Adds the bias and writes the rows of group g that exist.
TROUPE_INLINE void write_rows(const linear_args& a, std::int64_t g, std::int64_t token, vf acc) {
    const std::int64_t row = g * lanes;
    float* y = a.y + token * a.ldy + row;
    if (row + lanes <= a.rows) {
        store(y, a.bias ? add(acc, load(a.bias + row)) : acc);
        return;
    }
    float out[lanes];
    store(out, acc);
    for (std::int64_t i = 0; row + i < a.rows; ++i) y[i] = a.bias ? out[i] + a.bias[row + i] : out[i];
}

// -- quantized types: N tokens times one group ----------------------------------------------------
template <class Format, int N>
void quantized_tile_rows(const linear_args& a, std::int64_t g, std::int64_t token) {
    const std::int64_t blocks = a.cols / 32;
    const std::byte* scales = a.w + g * a.group_bytes;
    const std::byte* values = scales + a.scale_bytes;
    const act_block* act = a.q + token * blocks;
    const vi ones = int16_ones();
    vf acc[N];
    repeat<N>([&](auto t) TROUPE_FORCE { acc[t.value] = zero(); });
    for (std::int64_t b = 0; b < blocks; b += Format::subs, scales += Format::scale_bytes) {
        Format f;
        f.open(scales);
        for (int sub = 0; sub < Format::subs; ++sub, values += Format::value_bytes, ++act) {
            f.select(scales, sub);
            typename Format::dot dots[N];
            each_quad<Format::bits>(values, [&](auto q, vi stored) TROUPE_FORCE {
                constexpr int Q = decltype(q)::value;
                const vi w = Format::levels(stored);
                repeat<N>([&](auto t) TROUPE_FORCE {
                    dots[t.value].template add<Q>(w, broadcast_quad(act[t.value * blocks].q + 4 * Q), ones);
                });
            });
            repeat<N>([&](auto t) TROUPE_FORCE {
                acc[t.value] = f.finish(acc[t.value], dots[t.value], act[t.value * blocks]);
            });
        }
    }
    repeat<N>([&](auto t) TROUPE_FORCE { write_rows(a, g, token + t.value, acc[t.value]); });
}

/// Tokens [token, n) of group g in tiles of N, then N / 2 ...
template <class Format, int N>
TROUPE_INLINE void quantized_group(const linear_args& a, std::int64_t g, std::int64_t token) {
    for (; token + N <= a.n; token += N) quantized_tile_rows<Format, N>(a, g, token);
    if constexpr (N > 1) quantized_group<Format, N / 2>(a, g, token);
}

template <class Format>
void quantized_rows(const linear_args& a, std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin; g < end; ++g) quantized_group<Format, quantized_tile>(a, g, 0);
}

// -- float types: N tokens times G groups, enough independent sums to hide the latency of an fma --
struct f32_values {
    static constexpr int bytes = 4 * lanes;
    TROUPE_INLINE static vf get(const std::byte* p) { return load(reinterpret_cast<const float*>(p)); }
};
struct f16_values {
    static constexpr int bytes = 2 * lanes;
    TROUPE_INLINE static vf get(const std::byte* p) { return load_half(p); }
};
struct bf16_values {
    static constexpr int bytes = 2 * lanes;
    TROUPE_INLINE static vf get(const std::byte* p) { return load_bfloat(p); }
};

template <class Values, int G, int N>
void float_tile_rows(const linear_args& a, std::int64_t g, std::int64_t token) {
    const std::byte* w = a.w + g * a.group_bytes;
    const float* x = a.x + token * a.cols;
    vf acc[G][N];
    repeat<G>([&](auto i) TROUPE_FORCE { repeat<N>([&](auto t) TROUPE_FORCE { acc[i.value][t.value] = zero(); }); });
    for (std::int64_t k = 0; k < a.cols; ++k, w += Values::bytes) {
        vf xs[N];
        repeat<N>([&](auto t) TROUPE_FORCE { xs[t.value] = broadcast(x[t.value * a.cols + k]); });
        repeat<G>([&](auto i) TROUPE_FORCE {
            const vf wk = Values::get(w + i.value * a.group_bytes);
            repeat<N>(
                [&](auto t) TROUPE_FORCE { acc[i.value][t.value] = fma(wk, xs[t.value], acc[i.value][t.value]); });
        });
    }
    repeat<G>([&](auto i) TROUPE_FORCE {
        repeat<N>([&](auto t) TROUPE_FORCE { write_rows(a, g + i.value, token + t.value, acc[i.value][t.value]); });
    });
}

template <class Values, int G>
TROUPE_INLINE void float_groups(const linear_args& a, std::int64_t g) {
    std::int64_t token = 0;
    for (; token + 3 <= a.n; token += 3) float_tile_rows<Values, G, 3>(a, g, token);
    if (a.n - token == 2) float_tile_rows<Values, G, 2>(a, g, token);
    if (a.n - token == 1) float_tile_rows<Values, G, 1>(a, g, token);
}

template <class Values>
void float_rows(const linear_args& a, std::int64_t begin, std::int64_t end) {
    for (; begin + 4 <= end; begin += 4) float_groups<Values, 4>(a, begin);
    for (; begin < end; ++begin) float_groups<Values, 1>(a, begin);
}

// In the order of enum dtype.
inline constexpr linear_kernels kernel_set_of_isa = {lanes, offset_q8, quantize_row,
    {float_rows<f32_values>, float_rows<f16_values>, float_rows<bf16_values>, quantized_rows<centred_format<4>>,
        quantized_rows<affine_format<4>>, quantized_rows<q8_0_format>, quantized_rows<k_format<4>>,
        quantized_rows<k_format<5>>, quantized_rows<k_signed_format<6, 32>>, quantized_rows<centred_format<5>>,
        quantized_rows<affine_format<5>>, quantized_rows<q2_k_format>, quantized_rows<k_signed_format<4, 4>>,
        quantized_rows<iq4_nl_format>, quantized_rows<iq4_xs_format>, quantized_rows<mxfp4_format>,
        quantized_rows<awq_format<1>>, quantized_rows<awq_format<2>>, quantized_rows<awq_format<4>>}};
static_assert(static_cast<int>(dtype::f32) == 0 &&
              static_cast<int>(dtype::f16) == 1 &&
              static_cast<int>(dtype::bf16) == 2 &&
              static_cast<int>(dtype::q4_0) == 3 &&
              static_cast<int>(dtype::q4_1) == 4 &&
              static_cast<int>(dtype::q8_0) == 5 &&
              static_cast<int>(dtype::q4_k) == 6 &&
              static_cast<int>(dtype::q5_k) == 7 &&
              static_cast<int>(dtype::q6_k) == 8 &&
              static_cast<int>(dtype::q5_0) == 9 &&
              static_cast<int>(dtype::q5_1) == 10 &&
              static_cast<int>(dtype::q2_k) == 11 &&
              static_cast<int>(dtype::q3_k) == 12 &&
              static_cast<int>(dtype::iq4_nl) == 13 &&
              static_cast<int>(dtype::iq4_xs) == 14 &&
              static_cast<int>(dtype::mxfp4) == 15 &&
              static_cast<int>(dtype::awq_32) == 16 &&
              static_cast<int>(dtype::awq_64) == 17 &&
              static_cast<int>(dtype::awq_128) == 18 &&
              static_cast<int>(dtype::count_) == 19);
