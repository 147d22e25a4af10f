// One safetensors file: a JSON header with types, shapes and offsets, then the tensors' bytes. The file is hostile:
// everything is checked against its size before use. Source: the format description of the safetensors project.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace troupe::model {

struct safetensors_entry {
    std::string name;
    std::string type;                 ///< as the file writes it: "BF16"
    std::vector<std::int64_t> shape;  ///< outermost dimension first, as PyTorch has it; may be empty (one value)
    std::span<const std::byte> data;  ///< inside the file, exactly the tensor's bytes; may be unaligned
};

struct safetensors_contents {
    std::vector<safetensors_entry> tensors;  ///< in the header's order
    std::size_t header_bytes = 0;            ///< where the data begins
};

/// model_malformed for a header that is cut, too long or no JSON, offsets that leave the file, overlap or leave holes,
/// sizes that do not match type and shape, names that occur twice; model_unsupported for a type this build cannot size.
result<safetensors_contents> parse_safetensors(std::span<const std::byte> bytes);

}  // namespace troupe::model
