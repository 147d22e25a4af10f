// Sources of tensors that a checkpoint stores otherwise than GGUF does. All of them hold spans of mapped files that
// outlive them, and were checked for size by the caller. Internal to formats/.
#pragma once

#include <memory>
#include <vector>

#include "model/formats/model_file.hpp"

namespace troupe::model::detail {

using source = std::shared_ptr<const tensor_source>;

/// Fixed numbers, as f32.
source values(std::vector<float> numbers);
/// t (f32, f16 or bf16) + 1, as f32.
source plus_one(const model_tensor& t);
/// Rows of heads of `head` rows: row 2i from row i, row 2i + 1 from row i + head / 2.
source paired_rows(const model_tensor& t, std::int64_t head);
/// The same for the values of a vector in a float type.
source paired_values(const model_tensor& t, std::int64_t head);
/// Equal tensors one behind the other.
source stacked(std::vector<model_tensor> tensors);

/// AutoAWQ's GEMM layout: word c of a row of qweight [cols][rows / 8] and qzeros [cols / group][rows / 8] holds outputs
/// 8c + {0,2,4,6,1,3,5,7} in bits 0-3, 4-7, ...; scales are f16 [cols / group][rows]. Empty zeros: 8 everywhere.
struct awq_parts {
    std::span<const std::byte> weight, zeros, scales;
    std::int64_t rows, cols, group;
};
/// Blocks of kernels::dtype::awq_*.
source awq_matrix(const awq_parts& parts);
kernels::dtype awq_type(std::int64_t group);

}  // namespace troupe::model::detail
