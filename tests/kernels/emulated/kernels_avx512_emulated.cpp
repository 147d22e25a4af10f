// The AVX-512 row and attention kernels, compiled for any AVX2 machine: SIMDe's portable functions stand in for the
// intrinsics, and the namespace gets another name so that these kernels can be linked beside the real ones.
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512/add.h>
#include <simde/x86/avx512/and.h>
#include <simde/x86/avx512/andnot.h>
#include <simde/x86/avx512/blend.h>
#include <simde/x86/avx512/cast.h>
#include <simde/x86/avx512/div.h>
#include <simde/x86/avx512/extract.h>
#include <simde/x86/avx512/fmadd.h>
#include <simde/x86/avx512/fnmadd.h>
#include <simde/x86/avx512/loadu.h>
#include <simde/x86/avx512/max.h>
#include <simde/x86/avx512/min.h>
#include <simde/x86/avx512/mul.h>
#include <simde/x86/avx512/or.h>
#include <simde/x86/avx512/permutexvar.h>
#include <simde/x86/avx512/roundscale.h>
#include <simde/x86/avx512/set1.h>
#include <simde/x86/avx512/setr.h>
#include <simde/x86/avx512/setzero.h>
#include <simde/x86/avx512/slli.h>
#include <simde/x86/avx512/storeu.h>
#include <simde/x86/avx512/sub.h>

#include <cmath>

// Intrinsics this SIMDe lacks, lane by lane from their definitions.
namespace {

template <class T, int n> struct lanes_of { T v[n]; };
template <class To, class From> To bits(const From& from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
using floats16 = lanes_of<float, 16>;
using ints16 = lanes_of<int, 16>;

/// to[i] = convert(from[i]) over n lanes.
template <class To, class Out, class In, int n, class Convert> To map(const lanes_of<In, n>& in, Convert convert) {
    lanes_of<Out, n> out;
    for (int i = 0; i < n; ++i) out.v[i] = convert(in.v[i]);
    return bits<To>(out);
}

simde__m512 emulated_cvtepi32_ps(simde__m512i a) {
    return map<simde__m512, float>(bits<ints16>(a), [](int x) { return static_cast<float>(x); });
}
simde__m512i emulated_cvtps_epi32(simde__m512 a) {  // round to nearest even; what does not fit becomes INT_MIN
    return map<simde__m512i, int>(bits<floats16>(a), [](float x) {
        const float r = std::nearbyint(x);
        return r >= -0x1p31f && r < 0x1p31f ? static_cast<int>(r) : INT32_MIN;
    });
}
simde__m512i emulated_cvtepi8_epi32(__m128i a) {
    return map<simde__m512i, int>(
        bits<lanes_of<signed char, 16>>(a), [](signed char x) { return static_cast<int>(x); });
}
simde__m512i emulated_cvtepu16_epi32(__m256i a) {
    return map<simde__m512i, int>(
        bits<lanes_of<unsigned short, 16>>(a), [](unsigned short x) { return static_cast<int>(x); });
}
simde__m512d emulated_cvtps_pd(__m256 a) {
    return map<simde__m512d, double>(bits<lanes_of<float, 8>>(a), [](float x) { return static_cast<double>(x); });
}
simde__m512 emulated_cvtph_ps(__m256i a) {
    const __m256 halves[2] = {
        _mm256_cvtph_ps(_mm256_castsi256_si128(a)), _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1))};
    return bits<simde__m512>(halves);
}
__m256i emulated_cvtps_ph(simde__m512 a) {
    const auto in = bits<floats16>(a);
    const __m128i out[2] = {_mm256_cvtps_ph(_mm256_loadu_ps(in.v), 0), _mm256_cvtps_ph(_mm256_loadu_ps(in.v + 8), 0)};
    return bits<__m256i>(out);
}
__m256 emulated_upper(simde__m512 a) { return _mm256_loadu_ps(bits<floats16>(a).v + 8); }
simde__m512 emulated_maskz_loadu_ps(unsigned mask, const float* p) {
    floats16 out;
    for (int i = 0; i < 16; ++i) out.v[i] = (mask >> i & 1) != 0 ? p[i] : 0.0f;
    return bits<simde__m512>(out);
}
void emulated_mask_storeu_ps(float* p, unsigned mask, simde__m512 a) {
    const auto in = bits<floats16>(a);
    for (int i = 0; i < 16; ++i)
        if ((mask >> i & 1) != 0) p[i] = in.v[i];
}
simde__m512 emulated_fmaddsub_ps(simde__m512 a, simde__m512 b, simde__m512 c) {
    const auto x = bits<floats16>(a), y = bits<floats16>(b), z = bits<floats16>(c);
    floats16 out;
    for (int i = 0; i < 16; ++i) out.v[i] = std::fma(x.v[i], y.v[i], i % 2 == 0 ? -z.v[i] : z.v[i]);
    return bits<simde__m512>(out);
}
simde__m512 emulated_permute_ps(simde__m512 a, int control) {
    const auto in = bits<floats16>(a);
    floats16 out;
    for (int i = 0; i < 16; ++i) out.v[i] = in.v[i / 4 * 4 + (control >> 2 * (i % 4) & 3)];
    return bits<simde__m512>(out);
}

}  // namespace

#define _mm512_cvtepi32_ps(a) emulated_cvtepi32_ps(a)
#define _mm512_cvtps_epi32(a) emulated_cvtps_epi32(a)
#define _mm512_cvtepi8_epi32(a) emulated_cvtepi8_epi32(a)
#define _mm512_cvtepu16_epi32(a) emulated_cvtepu16_epi32(a)
#define _mm512_cvtps_pd(a) emulated_cvtps_pd(a)
#define _mm512_cvtph_ps(a) emulated_cvtph_ps(a)
#undef _mm512_cvtps_ph  // these are macros in unoptimized builds
#define _mm512_cvtps_ph(a, rounding) emulated_cvtps_ph(a)
#undef _mm512_extractf32x8_ps
#define _mm512_extractf32x8_ps(a, one) emulated_upper(a)
#define _mm512_maskz_loadu_ps(mask, p) emulated_maskz_loadu_ps(mask, p)
#define _mm512_mask_storeu_ps(p, mask, a) emulated_mask_storeu_ps(p, mask, a)
#define _mm512_fmaddsub_ps(a, b, c) emulated_fmaddsub_ps(a, b, c)
#undef _mm512_permute_ps
#define _mm512_permute_ps(a, control) emulated_permute_ps(a, control)

#define avx512 avx512_emulated
#include "kernels/cpu/kernels_avx512.cpp"
