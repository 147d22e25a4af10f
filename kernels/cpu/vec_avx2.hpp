// Sixteen float lanes as two AVX2 registers: the operations the *-inl.hpp sources are written in. Its twin is
// vec_avx512.hpp; each operation gives the same bits there.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace troupe::kernels::avx2 {
namespace {

constexpr int lanes = 16;
constexpr int tile = 4;  ///< vf sums that fit the 16 registers beside their operands and cover the latency of fma

struct vf {
    __m256 lo, hi;
};
struct mask {
    __m256 lo, hi;  // all bits of a lane set or none
};
struct vd {
    __m256d v[4];  // lanes 0-3, 4-7, 8-11, 12-15
};

inline vf zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline vf set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline vf load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, vf a) {
    _mm256_storeu_ps(p, a.lo);
    _mm256_storeu_ps(p + 8, a.hi);
}

/// Lanes from..to-1; the bounds may lie outside 0..16.
inline mask range(int from, int to) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), next = _mm256_add_epi32(lane, _mm256_set1_epi32(8));
    const __m256i before = _mm256_set1_epi32(from - 1), end = _mm256_set1_epi32(to);
    const auto half = [&](__m256i l) {
        return _mm256_castsi256_ps(_mm256_and_si256(_mm256_cmpgt_epi32(l, before), _mm256_cmpgt_epi32(end, l)));
    };
    return {half(lane), half(next)};
}
/// The first n lanes (n <= 16); the others read as zero and are not touched in memory.
inline vf load_n(const float* p, int n) {
    const mask m = range(0, n);
    return {_mm256_maskload_ps(p, _mm256_castps_si256(m.lo)), _mm256_maskload_ps(p + 8, _mm256_castps_si256(m.hi))};
}
inline void store_n(float* p, vf a, int n) {
    const mask m = range(0, n);
    _mm256_maskstore_ps(p, _mm256_castps_si256(m.lo), a.lo);
    _mm256_maskstore_ps(p + 8, _mm256_castps_si256(m.hi), a.hi);
}

inline vf add(vf a, vf b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline vf sub(vf a, vf b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline vf mul(vf a, vf b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline vf div(vf a, vf b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
/// a * b + c and c - a * b, rounded once.
inline vf fma(vf a, vf b, vf c) { return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)}; }
inline vf fnma(vf a, vf b, vf c) { return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)}; }
/// a * b - c in even lanes, a * b + c in odd ones.
inline vf fmaddsub(vf a, vf b, vf c) {
    return {_mm256_fmaddsub_ps(a.lo, b.lo, c.lo), _mm256_fmaddsub_ps(a.hi, b.hi, c.hi)};
}
/// The second operand where one of them is NaN.
inline vf min(vf a, vf b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
inline vf max(vf a, vf b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }

inline vf sign_of(vf a) {
    const __m256 bit = _mm256_set1_ps(-0.0f);
    return {_mm256_and_ps(bit, a.lo), _mm256_and_ps(bit, a.hi)};
}
inline vf abs(vf a) {
    const __m256 bit = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(bit, a.lo), _mm256_andnot_ps(bit, a.hi)};
}
/// a with the bits of `sign` (from sign_of) set; a >= 0.
inline vf with_sign(vf a, vf sign) { return {_mm256_or_ps(a.lo, sign.lo), _mm256_or_ps(a.hi, sign.hi)}; }

inline vf select(mask m, vf yes, vf no) {
    return {_mm256_blendv_ps(no.lo, yes.lo, m.lo), _mm256_blendv_ps(no.hi, yes.hi, m.hi)};
}
/// To the nearest integer, ties to even.
inline vf round(vf a) {
    constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(a.lo, nearest), _mm256_round_ps(a.hi, nearest)};
}
/// 2^n for integer-valued n in -126..127.
inline vf pow2(vf n) {
    const auto half = [](__m256 x) {
        const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(x), _mm256_set1_epi32(127));
        return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
    };
    return {half(n.lo), half(n.hi)};
}

/// Lanes i and i + 8, then i + 4, i + 2, i + 1.
inline float reduce_add(vf a) {
    const __m256 eight = _mm256_add_ps(a.lo, a.hi);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float reduce_max(vf a) {
    const __m256 eight = _mm256_max_ps(a.lo, a.hi);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

inline vd zero_d() { return {{_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()}}; }
/// s + a * a in double; the product is exact.
inline vd add_squares(vd s, vf a) {
    const auto part = [](__m128 x, __m256d sum) {
        const __m256d d = _mm256_cvtps_pd(x);
        return _mm256_fmadd_pd(d, d, sum);
    };
    return {{part(_mm256_castps256_ps128(a.lo), s.v[0]), part(_mm256_extractf128_ps(a.lo, 1), s.v[1]),
        part(_mm256_castps256_ps128(a.hi), s.v[2]), part(_mm256_extractf128_ps(a.hi, 1), s.v[3])}};
}
/// Lanes i and i + 8, then i + 4, i + 2, i + 1.
inline double reduce_add(vd s) {
    const __m256d four = _mm256_add_pd(_mm256_add_pd(s.v[0], s.v[2]), _mm256_add_pd(s.v[1], s.v[3]));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

inline vf widen_half(const void* p) {
    const auto* q = static_cast<const __m128i*>(p);
    return {_mm256_cvtph_ps(_mm_loadu_si128(q)), _mm256_cvtph_ps(_mm_loadu_si128(q + 1))};
}
inline vf widen_bfloat(const void* p) {
    const auto* q = static_cast<const __m128i*>(p);
    const auto half = [](__m128i x) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16)); };
    return {half(_mm_loadu_si128(q)), half(_mm_loadu_si128(q + 1))};
}
inline vf widen_int8(__m128i bytes) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
        _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
}
inline void narrow_half(vf a, void* p) {
    auto* q = static_cast<__m128i*>(p);
    _mm_storeu_si128(q, _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(q + 1, _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT));
}

/// Lanes 2i and 2i + 1 exchanged.
inline vf swap_pairs(vf a) { return {_mm256_permute_ps(a.lo, 0xb1), _mm256_permute_ps(a.hi, 0xb1)}; }
/// Lanes 2i and 2i + 1 = p[i] for i < n (n <= 8), else zero.
inline vf load_pairs(const float* p, int n) {
    const __m256 x = _mm256_maskload_ps(p, _mm256_castps_si256(range(0, n).lo));
    return {_mm256_permutevar8x32_ps(x, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3)),
        _mm256_permutevar8x32_ps(x, _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7))};
}

}  // namespace
}  // namespace troupe::kernels::avx2
