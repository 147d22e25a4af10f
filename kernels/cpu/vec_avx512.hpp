// Sixteen float lanes as one AVX-512 register (F, BW, DQ, VL): the twin of vec_avx2.hpp, operation by operation.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace troupe::kernels::avx512 {
namespace {

constexpr int lanes = 16;
constexpr int tile = 12;  ///< independent vf sums that cover the latency of fma on two ports

struct vf {
    __m512 v;
};
struct mask {
    __mmask16 m;
};
struct vd {
    __m512d v[2];  // lanes 0-7, 8-15
};

inline vf zero() { return {_mm512_setzero_ps()}; }
inline vf set1(float x) { return {_mm512_set1_ps(x)}; }
inline vf load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, vf a) { _mm512_storeu_ps(p, a.v); }

/// Lanes from..to-1; the bounds may lie outside 0..16.
inline mask range(int from, int to) {
    const auto below = [](int n) { return (1u << (n < 0 ? 0 : n > 16 ? 16 : n)) - 1u; };
    return {static_cast<__mmask16>(below(to) & ~below(from))};
}
/// The first n lanes (n <= 16); the others read as zero and are not touched in memory.
inline vf load_n(const float* p, int n) { return {_mm512_maskz_loadu_ps(range(0, n).m, p)}; }
inline void store_n(float* p, vf a, int n) { _mm512_mask_storeu_ps(p, range(0, n).m, a.v); }

inline vf add(vf a, vf b) { return {_mm512_add_ps(a.v, b.v)}; }
inline vf sub(vf a, vf b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline vf mul(vf a, vf b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline vf div(vf a, vf b) { return {_mm512_div_ps(a.v, b.v)}; }
/// a * b + c and c - a * b, rounded once.
inline vf fma(vf a, vf b, vf c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline vf fnma(vf a, vf b, vf c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
/// a * b - c in even lanes, a * b + c in odd ones.
inline vf fmaddsub(vf a, vf b, vf c) { return {_mm512_fmaddsub_ps(a.v, b.v, c.v)}; }
/// The second operand where one of them is NaN.
inline vf min(vf a, vf b) { return {_mm512_min_ps(a.v, b.v)}; }
inline vf max(vf a, vf b) { return {_mm512_max_ps(a.v, b.v)}; }

inline vf sign_of(vf a) { return {_mm512_and_ps(_mm512_set1_ps(-0.0f), a.v)}; }
inline vf abs(vf a) { return {_mm512_andnot_ps(_mm512_set1_ps(-0.0f), a.v)}; }
/// a with the bits of `sign` (from sign_of) set; a >= 0.
inline vf with_sign(vf a, vf sign) { return {_mm512_or_ps(a.v, sign.v)}; }

inline vf select(mask m, vf yes, vf no) { return {_mm512_mask_blend_ps(m.m, no.v, yes.v)}; }
/// To the nearest integer, ties to even.
inline vf round(vf a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
/// 2^n for integer-valued n in -126..127.
inline vf pow2(vf n) {
    const __m512i biased = _mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(biased, 23))};
}

inline __m256 upper(vf a) { return _mm512_extractf32x8_ps(a.v, 1); }
inline __m256 lower(vf a) { return _mm512_castps512_ps256(a.v); }

/// Lanes i and i + 8, then i + 4, i + 2, i + 1.
inline float reduce_add(vf a) {
    const __m256 eight = _mm256_add_ps(lower(a), upper(a));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float reduce_max(vf a) {
    const __m256 eight = _mm256_max_ps(lower(a), upper(a));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

inline vd zero_d() { return {{_mm512_setzero_pd(), _mm512_setzero_pd()}}; }
/// s + a * a in double; the product is exact.
inline vd add_squares(vd s, vf a) {
    const __m512d x = _mm512_cvtps_pd(lower(a)), y = _mm512_cvtps_pd(upper(a));
    return {{_mm512_fmadd_pd(x, x, s.v[0]), _mm512_fmadd_pd(y, y, s.v[1])}};
}
/// Lanes i and i + 8, then i + 4, i + 2, i + 1.
inline double reduce_add(vd s) {
    const __m512d eight = _mm512_add_pd(s.v[0], s.v[1]);
    const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

inline __m256i load_256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline vf widen_half(const void* p) { return {_mm512_cvtph_ps(load_256(p))}; }
inline vf widen_bfloat(const void* p) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_256(p)), 16))};
}
inline vf widen_int8(__m128i bytes) { return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))}; }
inline void narrow_half(vf a, void* p) {
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}

/// Lanes 2i and 2i + 1 exchanged.
inline vf swap_pairs(vf a) { return {_mm512_permute_ps(a.v, 0xb1)}; }
/// Lanes 2i and 2i + 1 = p[i] for i < n (n <= 8), else zero.
inline vf load_pairs(const float* p, int n) {
    const __m512i each_twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return {_mm512_permutexvar_ps(each_twice, load_n(p, n).v)};
}

}  // namespace
}  // namespace troupe::kernels::avx512
