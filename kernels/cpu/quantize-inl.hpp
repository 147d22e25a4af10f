// Activations of one row to int8 blocks; included inside an ISA namespace. 256-bit code for every ISA: one rounding.
// Include only from linear-inl.hpp.

/// Halves whose largest value is below this become zero, so that 127 / max stays finite.
inline constexpr float quantize_floor = 1e-30f;

/// Largest |x| of 16 values. Compared as integers, so that a NaN wins over every number and cannot get lost.
TROUPE_INLINE float largest_magnitude(const __m256 v[2]) {
    const __m256i mask = _mm256_set1_epi32(0x7fffffff);
    const __m256i m = _mm256_max_epi32(
        _mm256_and_si256(_mm256_castps_si256(v[0]), mask), _mm256_and_si256(_mm256_castps_si256(v[1]), mask));
    __m128i h = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0x4e));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0xb1));
    return _mm_cvtss_f32(_mm_castsi128_ps(h));
}

/// 16 floats times `scale`, rounded to nearest even, as int8 in order.
TROUPE_INLINE __m128i round_to_bytes(const __m256 v[2], float scale) {
    const __m256 s = _mm256_set1_ps(scale);
    const __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(v[0], s)), b = _mm256_cvtps_epi32(_mm256_mul_ps(v[1], s));
    // The pack works within 128-bit halves: pairs of lanes arrive as 0 2 1 3.
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
    return _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

TROUPE_INLINE std::int32_t sum_of_bytes(__m128i q) {
    __m128i v = _mm_madd_epi16(_mm_maddubs_epi16(_mm_set1_epi8(1), q), _mm_set1_epi16(1));
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4e));
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0xb1));
    return _mm_cvtsi128_si32(v);
}

/// x[cols] -> out[cols / 32]. A NaN or infinity makes its half's scale NaN or infinite, hence every product with it.
void quantize_row(const float* x, std::int64_t cols, act_block* out) {
    for (std::int64_t b = 0; b < cols / 32; ++b) {
        act_block& a = out[b];
        float sums[2];
        for (int h = 0; h < 2; ++h, x += 16) {
            const __m256 v[2] = {_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)};
            const float max = largest_magnitude(v);
            const bool tiny = max < quantize_floor;
            const __m128i q = round_to_bytes(v, tiny ? 0.0f : 127.0f / max);
            const std::int32_t sum = sum_of_bytes(q);
            _mm_storeu_si128(reinterpret_cast<__m128i*>(a.q + 16 * h), q);
            a.d[h] = tiny ? 0.0f : max / 127.0f;
            a.centre[h] = 32 * sum;
            sums[h] = a.d[h] * static_cast<float>(sum);
        }
        a.d_sum = sums[0] + sums[1];
    }
}
