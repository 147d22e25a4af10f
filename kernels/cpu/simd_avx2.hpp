// The thin AVX2 layer: 8 float lanes, and the few integer steps of a quantized dot product. Everything is in an unnamed
// namespace and forced inline: a file built with -mavx2 must not emit a symbol another file could be linked with.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#ifndef TROUPE_FORCE  // a test that emulates this layer lets the compiler decide
#define TROUPE_FORCE __attribute__((always_inline))
#endif
#define TROUPE_INLINE inline TROUPE_FORCE

namespace troupe::kernels::avx2 {
namespace {

inline constexpr int lanes = 8;
/// Tokens a quantized tile works on at once. Eight do not fit the registers, but share the unpacking: on Zen 3 they are
/// 6 (q4_1) to 13 % (q5_0) faster than four.
inline constexpr int quantized_tile = 8;
/// Signed 8-bit weights are stored as they are (here) or with 128 added (where the dot product has 32-bit sums).
inline constexpr bool offset_q8 = false;

using vf = __m256;      ///< 8 floats
using vi = __m256i;     ///< 8 int32, or 32 bytes
using vhalf = __m128i;  ///< 8 half floats or int16

// -- float lanes ----------------------------------------------------------------------------------
TROUPE_INLINE vf zero() { return _mm256_setzero_ps(); }
TROUPE_INLINE vf broadcast(float x) { return _mm256_set1_ps(x); }
TROUPE_INLINE vf load(const float* p) { return _mm256_loadu_ps(p); }
TROUPE_INLINE void store(float* p, vf v) { _mm256_storeu_ps(p, v); }
TROUPE_INLINE vf add(vf a, vf b) { return _mm256_add_ps(a, b); }
TROUPE_INLINE vf mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
/// a * b + c, rounded once.
TROUPE_INLINE vf fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
/// c - a * b, rounded once.
TROUPE_INLINE vf fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
TROUPE_INLINE vf to_float(vi v) { return _mm256_cvtepi32_ps(v); }

// -- loads that widen to one value a lane ---------------------------------------------------------
TROUPE_INLINE vf load_half(const std::byte* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
TROUPE_INLINE vf load_bfloat(const std::byte* p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
TROUPE_INLINE vf load_u8(const std::byte* p) {
    return to_float(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
TROUPE_INLINE vf load_i8(const std::byte* p) {
    return to_float(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

// -- bytes ----------------------------------------------------------------------------------------
TROUPE_INLINE vi load_bytes(const std::byte* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
TROUPE_INLINE vi broadcast_i32(std::int32_t x) { return _mm256_set1_epi32(x); }
/// Four bytes, repeated in every lane.
TROUPE_INLINE vi broadcast_quad(const std::int8_t* p) {
    std::int32_t x;
    __builtin_memcpy(&x, p, sizeof x);
    return _mm256_set1_epi32(x);
}
/// The byte of `set` that each byte (0..15) names.
TROUPE_INLINE vi look_up(const std::int8_t (&set)[16], vi names) {
    const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(set));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), names);
}
TROUPE_INLINE vi bit_or(vi a, vi b) { return _mm256_or_si256(a, b); }
/// (v >> Shift, or << -Shift) & mask, where the mask drops what crosses a byte.
template <int Shift> TROUPE_INLINE vi field(vi v, std::int8_t mask) {
    const vi m = _mm256_set1_epi8(mask);
    if constexpr (Shift > 0) v = _mm256_srli_epi16(v, Shift);
    if constexpr (Shift < 0) v = _mm256_slli_epi16(v, -Shift);
    return _mm256_and_si256(v, m);
}

/// Makes the compiler finish v here. Left alone it turns the integer sums of a tile into trees and spills their leaves.
TROUPE_INLINE void settle(vi& v) { asm volatile("" : "+x"(v)); }

// -- integer dot products -------------------------------------------------------------------------
/// Exact sums over the two halves of a block of 32 = 8 quads of unsigned weights below 2^Bits (lane = row) times int8
/// activations in [-127, 127]. Pairs stay in int16 while they cannot overflow: 2 * 127 * (2^Bits - 1) * quads < 2^15.
template <int Bits> struct dot32 {
    static constexpr int quads = Bits <= 5 ? 4 : 2;
    static_assert(2 * 127 * ((1 << Bits) - 1) * quads < (1 << 15));
    vi pairs, sum[2];

    template <int Q> TROUPE_INLINE void add(vi w, vi a, vi ones) {
        const vi p = _mm256_maddubs_epi16(w, a);
        pairs = Q % quads == 0 ? p : _mm256_add_epi16(pairs, p);
        settle(pairs);
        if constexpr (Q % quads == quads - 1) {
            const vi s = _mm256_madd_epi16(pairs, ones);
            sum[Q / 4] = Q % 4 == quads - 1 ? s : _mm256_add_epi32(sum[Q / 4], s);
            settle(sum[Q / 4]);
        }
    }
};

/// The same for int8 weights: |w| times (a with w's sign), since the instruction wants one unsigned side; 2 * 128 * 127
/// stays below 2^15.
struct dot32_signed {
    vi sum[2];

    template <int Q> TROUPE_INLINE void add(vi w, vi a, vi ones) {
        const vi s = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w)), ones);
        sum[Q / 4] = Q % 4 == 0 ? s : _mm256_add_epi32(sum[Q / 4], s);
        settle(sum[Q / 4]);
    }
};

TROUPE_INLINE vi int16_ones() { return _mm256_set1_epi16(1); }
TROUPE_INLINE vi sub_i32(vi a, vi b) { return _mm256_sub_epi32(a, b); }
/// a << Shift in every int32.
template <int Shift> TROUPE_INLINE vi shift_left_i32(vi a) { return _mm256_slli_epi32(a, Shift); }

}  // namespace
}  // namespace troupe::kernels::avx2
