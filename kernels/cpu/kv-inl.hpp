// Conversions between float and the KV types. Exact but for narrow_half's one rounding.
// Included once by each kernels_<isa>.cpp after attention-inl.hpp.

namespace troupe::kernels::TROUPE_ISA {
namespace {

void narrow_half_values(const float* x, std::int64_t n, std::uint16_t* y) {
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) narrow_half(load(x + i), y + i);
    if (i == n) return;
    std::uint16_t last[lanes];
    narrow_half(load_n(x + i, static_cast<int>(n - i)), last);
    for (int j = 0; i + j < n; ++j) y[i + j] = last[j];
}

/// A rest below sixteen values goes through a copy: nothing may be read beyond it.
template <class Type> inline void widen_values(const std::byte* x, std::int64_t n, float* y) {
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) store(y + i, Type::load16(x + i * Type::bytes));
    if (i == n) return;
    std::byte last[lanes * Type::bytes] = {};
    __builtin_memcpy(last, x + i * Type::bytes, static_cast<std::size_t>(n - i) * Type::bytes);
    store_n(y + i, Type::load16(last), static_cast<int>(n - i));
}

void widen(dtype type, const std::byte* x, std::int64_t n, float* y) {
    switch (type) {
    case dtype::f16:
        return widen_values<as_f16>(x, n, y);
    case dtype::bf16:
        return widen_values<as_bf16>(x, n, y);
    default:
        return widen_values<as_f32>(x, n, y);
    }
}

constexpr int q8_values = 32, q8_bytes = 34;  // a block: scale as F16, then the quanta

/// The scales of sixteen blocks, `stride` bytes apart, one a lane.
inline vf q8_scales(const std::byte* b, std::int64_t stride) {
    std::uint16_t half[lanes];
    for (int i = 0; i < lanes; ++i) __builtin_memcpy(half + i, b + i * stride, 2);
    return widen_half(half);
}

inline __m128i load_128(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }

void widen_q8_values(const std::byte* rows, int head_dim, int stride, float* y) {
    const std::int64_t row_bytes = head_dim / q8_values * q8_bytes;
    for (int d = 0; d < head_dim; d += q8_values, rows += q8_bytes) {
        float scale[lanes];
        store(scale, q8_scales(rows, row_bytes));
        for (int token = 0; token < block; ++token) {
            const std::byte* q = rows + token * row_bytes + 2;
            float* to = y + token * stride + d;
            store(to, mul(widen_int8(load_128(q)), set1(scale[token])));
            store(to + lanes, mul(widen_int8(load_128(q + lanes)), set1(scale[token])));
        }
    }
}

void values_of_keys(const float* keys, int dim, int stride, float* y) {
    int d = 0;
    for (; d + 4 <= dim; d += 4)
        for (int token = 0; token < block; token += 4) {
            const float* from = keys + d * block + token;
            __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + block);
            __m128 c = _mm_loadu_ps(from + 2 * block), e = _mm_loadu_ps(from + 3 * block);
            _MM_TRANSPOSE4_PS(a, b, c, e);
            float* to = y + token * stride + d;
            _mm_storeu_ps(to, a);
            _mm_storeu_ps(to + stride, b);
            _mm_storeu_ps(to + 2 * stride, c);
            _mm_storeu_ps(to + 3 * stride, e);
        }
    for (; d < dim; ++d)
        for (int token = 0; token < block; ++token) y[token * stride + d] = keys[d * block + token];
}

/// Column c of the sixteen rows of bytes becomes row c: interleaving rows i and i + 8 four times moves every bit of a
/// byte's (row, column) number round by half.
inline void transpose_bytes(__m128i rows[16]) {
    __m128i next[16];
    for (int round = 0; round < 4; ++round) {
        TROUPE_UNROLL
        for (int i = 0; i < 8; ++i) {
            next[2 * i] = _mm_unpacklo_epi8(rows[i], rows[i + 8]);
            next[2 * i + 1] = _mm_unpackhi_epi8(rows[i], rows[i + 8]);
        }
        TROUPE_UNROLL
        for (int i = 0; i < 16; ++i) rows[i] = next[i];
    }
}

void widen_q8_keys(const std::byte* rows, int head_dim, float* y) {
    const std::int64_t row_bytes = head_dim / q8_values * q8_bytes;
    for (int d = 0; d < head_dim; d += q8_values, rows += q8_bytes) {
        const vf scale = q8_scales(rows, row_bytes);
        for (int part = 0; part < q8_values; part += lanes, y += lanes * block) {
            __m128i bytes[block];
            for (int token = 0; token < block; ++token) bytes[token] = load_128(rows + token * row_bytes + 2 + part);
            transpose_bytes(bytes);
            for (int i = 0; i < lanes; ++i) store(y + i * block, mul(widen_int8(bytes[i]), scale));
        }
    }
}

}  // namespace
}  // namespace troupe::kernels::TROUPE_ISA
