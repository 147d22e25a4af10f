// The two CPU tables. Which of them this processor runs is dispatch.cpp's matter.
#pragma once

#include "kernels/ops.hpp"

namespace troupe::kernels::cpu {

extern const ops avx2_table;
extern const ops avx512_table;

}  // namespace troupe::kernels::cpu
