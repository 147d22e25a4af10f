// The AVX-512 linear kernels, compiled for any AVX2 machine: SIMDe's portable functions stand in for the AVX-512
// intrinsics and the namespace gets another name, so that these kernels can be linked beside the real ones.
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512/add.h>
#include <simde/x86/avx512/and.h>
#include <simde/x86/avx512/broadcast.h>
#include <simde/x86/avx512/cast.h>
#include <simde/x86/avx512/cvt.h>
#include <simde/x86/avx512/dpbusd.h>
#include <simde/x86/avx512/fmadd.h>
#include <simde/x86/avx512/fnmadd.h>
#include <simde/x86/avx512/loadu.h>
#include <simde/x86/avx512/mul.h>
#include <simde/x86/avx512/or.h>
#include <simde/x86/avx512/set1.h>
#include <simde/x86/avx512/setzero.h>
#include <simde/x86/avx512/shuffle.h>
#include <simde/x86/avx512/slli.h>
#include <simde/x86/avx512/srli.h>
#include <simde/x86/avx512/storeu.h>
#include <simde/x86/avx512/sub.h>

// Intrinsics this SIMDe lacks, from their definitions.
namespace {

template <class To, class From> To bits(const From& from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
struct ints {
    int v[16];
};
struct floats {
    float v[16];
};

[[maybe_unused]] simde__m512 emulated_cvtepi32_ps(simde__m512i a) {
    floats out;
    for (int i = 0; i < 16; ++i) out.v[i] = static_cast<float>(bits<ints>(a).v[i]);
    return bits<simde__m512>(out);
}
[[maybe_unused]] simde__m512i emulated_cvtepu16_epi32(__m256i a) {
    unsigned short in[16];
    __builtin_memcpy(in, &a, sizeof in);
    ints out;
    for (int i = 0; i < 16; ++i) out.v[i] = in[i];
    return bits<simde__m512i>(out);
}
[[maybe_unused]] simde__m512i emulated_cvtepu8_epi32(__m128i a) {
    unsigned char in[16];
    __builtin_memcpy(in, &a, sizeof in);
    ints out;
    for (int i = 0; i < 16; ++i) out.v[i] = in[i];
    return bits<simde__m512i>(out);
}
[[maybe_unused]] simde__m512i emulated_cvtepi8_epi32(__m128i a) {
    signed char in[16];
    __builtin_memcpy(in, &a, sizeof in);
    ints out;
    for (int i = 0; i < 16; ++i) out.v[i] = in[i];
    return bits<simde__m512i>(out);
}
[[maybe_unused]] simde__m512 emulated_cvtph_ps(__m256i a) {
    const __m256 halves[2] = {
        _mm256_cvtph_ps(_mm256_castsi256_si128(a)), _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1))};
    floats out;
    __builtin_memcpy(out.v, halves, sizeof out.v);
    return bits<simde__m512>(out);
}

}  // namespace

#define _mm512_cvtepi32_ps(a) emulated_cvtepi32_ps(a)
#define _mm512_cvtepu16_epi32(a) emulated_cvtepu16_epi32(a)
#define _mm512_cvtepi8_epi32(a) emulated_cvtepi8_epi32(a)
#define _mm512_cvtepu8_epi32(a) emulated_cvtepu8_epi32(a)
#define _mm512_cvtph_ps(a) emulated_cvtph_ps(a)

#define TROUPE_FORCE
#define avx512 avx512_emulated
#include "kernels/cpu/linear_avx512.cpp"
