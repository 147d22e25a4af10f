// The linear kernels compiled for AVX-512 F, BW, VL, DQ and VNNI.
#include "kernels/block_fields.hpp"
#include "kernels/cpu/linear_kernels.hpp"
#include "kernels/cpu/simd_avx512.hpp"

namespace troupe::kernels::avx512 {
namespace {

#include "kernels/cpu/linear-inl.hpp"

}  // namespace

const linear_kernels linear_kernel_set = kernel_set_of_isa;

}  // namespace troupe::kernels::avx512
