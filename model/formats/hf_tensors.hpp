// Tensors of a Hugging Face folder under GGUF's names and in GGUF's row order. Internal to formats/.
#pragma once

#include <span>

#include "model/formats/assembled_file.hpp"
#include "model/formats/hf_config.hpp"
#include "model/formats/safetensors.hpp"

namespace troupe::model::detail {

/// Adds every tensor of all shards to `out`; the entries' data stays mapped by its owner. Names this build has no
/// translation for are kept, so that the family refuses them. model_unsupported for types other than F32, F16, BF16 and
/// packed AWQ, model_malformed for AWQ parts and experts that do not fit together.
result<void> translate_tensors(
    std::span<const safetensors_entry> entries, const hf_config& config, assembled_file& out);

}  // namespace troupe::model::detail
