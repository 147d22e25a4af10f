// The thin AVX-512 (F, BW, VL, DQ, VNNI) layer: the same operations as simd_avx2.hpp with 16 lanes, and the same bits:
// the integer sums of both are exact, and float operations are the same per lane. See simd_avx2.hpp for what each one
// means.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#ifndef TROUPE_FORCE  // a test that emulates this layer lets the compiler decide
#define TROUPE_FORCE __attribute__((always_inline))
#endif
#define TROUPE_INLINE inline TROUPE_FORCE

namespace troupe::kernels::avx512 {
namespace {

inline constexpr int lanes = 16;
inline constexpr int quantized_tile = 8;
inline constexpr bool offset_q8 = true;

using vf = __m512;      ///< 16 floats
using vi = __m512i;     ///< 16 int32, or 64 bytes
using vhalf = __m256i;  ///< 16 half floats or int16

// -- float lanes ----------------------------------------------------------------------------------
TROUPE_INLINE vf zero() { return _mm512_setzero_ps(); }
TROUPE_INLINE vf broadcast(float x) { return _mm512_set1_ps(x); }
TROUPE_INLINE vf load(const float* p) { return _mm512_loadu_ps(p); }
TROUPE_INLINE void store(float* p, vf v) { _mm512_storeu_ps(p, v); }
TROUPE_INLINE vf add(vf a, vf b) { return _mm512_add_ps(a, b); }
TROUPE_INLINE vf mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
TROUPE_INLINE vf fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
TROUPE_INLINE vf fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }
TROUPE_INLINE vf to_float(vi v) { return _mm512_cvtepi32_ps(v); }

// -- loads that widen to one value a lane ---------------------------------------------------------
TROUPE_INLINE vf load_half(const std::byte* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
TROUPE_INLINE vf load_bfloat(const std::byte* p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
TROUPE_INLINE vf load_u8(const std::byte* p) {
    return to_float(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
TROUPE_INLINE vf load_i8(const std::byte* p) {
    return to_float(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}

// -- bytes ----------------------------------------------------------------------------------------
TROUPE_INLINE vi load_bytes(const std::byte* p) { return _mm512_loadu_si512(p); }
TROUPE_INLINE vi broadcast_i32(std::int32_t x) { return _mm512_set1_epi32(x); }
TROUPE_INLINE vi broadcast_quad(const std::int8_t* p) {
    std::int32_t x;
    __builtin_memcpy(&x, p, sizeof x);
    return _mm512_set1_epi32(x);
}
/// With the 128 of offset_q8 added.
TROUPE_INLINE vi look_up(const std::int8_t (&set)[16], vi names) {
    const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(set));
    const __m128i offset = _mm_xor_si128(table, _mm_set1_epi8(static_cast<char>(0x80)));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(offset), names);
}
TROUPE_INLINE vi bit_or(vi a, vi b) { return _mm512_or_si512(a, b); }
template <int Shift> TROUPE_INLINE vi field(vi v, std::int8_t mask) {
    const vi m = _mm512_set1_epi8(mask);
    if constexpr (Shift > 0) v = _mm512_srli_epi16(v, Shift);
    if constexpr (Shift < 0) v = _mm512_slli_epi16(v, -Shift);
    return _mm512_and_si512(v, m);
}

// -- integer dot products: vpdpbusd keeps 32-bit sums, so nothing can overflow --------------------
template <int Bits> struct dot32 {
    vi sum[2];

    template <int Q> TROUPE_INLINE void add(vi w, vi a, vi) {
        sum[Q / 4] = _mm512_dpbusd_epi32(Q % 4 == 0 ? _mm512_setzero_si512() : sum[Q / 4], w, a);
    }
};

/// Weights come with 128 added (offset_q8); the caller takes 128 * (sum of the activations) away again.
using dot32_signed = dot32<8>;

TROUPE_INLINE vi int16_ones() { return _mm512_setzero_si512(); }  // unused by dpbusd
TROUPE_INLINE vi sub_i32(vi a, vi b) { return _mm512_sub_epi32(a, b); }
template <int Shift> TROUPE_INLINE vi shift_left_i32(vi a) { return _mm512_slli_epi32(a, Shift); }

}  // namespace
}  // namespace troupe::kernels::avx512
