// The tensor type numbers of GGUF files: their names, and which of them this build can compute with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/types.hpp"

namespace troupe::model {

/// ggml's name of a tensor type number; "unknown" for numbers without one. Source: ggml's type enumeration.
std::string_view ggml_type_name(std::uint32_t number);
/// nullopt: no kernels for it.
std::optional<kernels::dtype> ggml_dtype(std::uint32_t number);
/// The number of a type in a file; nullopt: GGUF has none.
std::optional<std::uint32_t> ggml_number(kernels::dtype type);
/// For error messages: "f32, f16, ...".
std::string supported_ggml_types();

}  // namespace troupe::model
