// Activations of one row to int8 blocks; included inside an ISA namespace. 256-bit code for every ISA: one rounding.
// Include only from linear-inl.hpp.

/// Blocks whose largest value is below this become zero, so that 127 / max stays finite.
inline constexpr float quantize_floor = 1e-30f;

/// Largest |x| of 32 values. Compared as integers, so that a NaN wins over every number and cannot get lost.
TROUPE_INLINE float largest_magnitude(const __m256 v[4]) {
    const __m256i mask = _mm256_set1_epi32(0x7fffffff);
    __m256i m = _mm256_setzero_si256();
    for (int i = 0; i < 4; ++i) m = _mm256_max_epi32(m, _mm256_and_si256(_mm256_castps_si256(v[i]), mask));
    __m128i h = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0x4e));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0xb1));
    return _mm_cvtss_f32(_mm_castsi128_ps(h));
}

/// 32 floats times `scale`, rounded to nearest even, as int8 in order.
TROUPE_INLINE __m256i round_to_bytes(const __m256 v[4], float scale) {
    const __m256 s = _mm256_set1_ps(scale);
    __m256i i[4];
    for (int k = 0; k < 4; ++k) i[k] = _mm256_cvtps_epi32(_mm256_mul_ps(v[k], s));
    const __m256i words0 = _mm256_packs_epi32(i[0], i[1]), words1 = _mm256_packs_epi32(i[2], i[3]);
    // The packs work within 128-bit halves: groups of four arrive as 0 2 4 6 1 3 5 7.
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(words0, words1), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

TROUPE_INLINE std::int32_t sum_of_four(__m128i v) {
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4e));
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0xb1));
    return _mm_cvtsi128_si32(v);
}

/// x[cols] -> out[cols / 32]. A NaN or infinity makes its block's scale NaN or infinite, hence every product with it.
void quantize_row(const float* x, std::int64_t cols, act_block* out) {
    for (std::int64_t b = 0; b < cols / 32; ++b, x += 32) {
        __m256 v[4];
        for (int i = 0; i < 4; ++i) v[i] = _mm256_loadu_ps(x + 8 * i);
        const float max = largest_magnitude(v);
        const bool tiny = max < quantize_floor;
        const __m256i q = round_to_bytes(v, tiny ? 0.0f : 127.0f / max);
        const __m256i sums = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), q), _mm256_set1_epi16(1));
        const std::int32_t low = sum_of_four(_mm256_castsi256_si128(sums));
        const std::int32_t high = sum_of_four(_mm256_extracti128_si256(sums, 1));
        act_block& a = out[b];
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(a.q), q);
        a.d = tiny ? 0.0f : max / 127.0f;
        a.d_sum = a.d * static_cast<float>(low + high);
        a.half[0] = static_cast<std::int16_t>(low);
        a.half[1] = static_cast<std::int16_t>(high);
        a.sum = low + high;
    }
}
