// The AVX2 build of the CPU kernels: nothing here but the instruction set.
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/vec_avx2.hpp"

#define TROUPE_ISA avx2
// Each of these needs the ones before it.
// clang-format off
#include "kernels/cpu/math-inl.hpp"
#include "kernels/cpu/rows-inl.hpp"
#include "kernels/cpu/attention-inl.hpp"
#include "kernels/cpu/kv-inl.hpp"
#include "kernels/cpu/table-inl.hpp"
// clang-format on
