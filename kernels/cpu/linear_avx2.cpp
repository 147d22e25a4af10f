// The linear kernels compiled for AVX2 (with FMA and F16C).
#include "kernels/block_fields.hpp"
#include "kernels/cpu/linear_kernels.hpp"
#include "kernels/cpu/simd_avx2.hpp"

namespace troupe::kernels::avx2 {
namespace {

#include "kernels/cpu/linear-inl.hpp"

}  // namespace

const linear_kernels linear_kernel_set = kernel_set_of_isa;

}  // namespace troupe::kernels::avx2
