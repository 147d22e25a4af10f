// Which of this build's pre-tokenizers the rules of a tokenizer.json are. Internal to formats/.
#pragma once

#include <string>

#include "core/result.hpp"
#include "model/formats/json_file.hpp"

namespace troupe::model::detail {

/// The name as tokenizer.ggml.pre has it, for the pre_tokenizer of a byte-level tokenizer. model_unsupported naming the
/// rules if there is no such pre-tokenizer.
result<std::string> byte_level_pretokenizer(const json_object& pre_tokenizer);

}  // namespace troupe::model::detail
