// What a file says about itself: name, sizes, quantization, and the hash that names its weights.
#pragma once

#include <string>

#include "model/architectures/builder.hpp"
#include "model/model.hpp"

namespace troupe::model {

model_info read_info(const model_file& file, std::string_view architecture, const decoder_dims& dims);

/// Hex SHA-256 over each file's part before the tensor data, its size and 64 pages of 4 KiB spread over its data.
/// Cheap for any size; it tells models apart, it does not prove a file intact.
std::string model_hash(const model_file& file);

}  // namespace troupe::model
