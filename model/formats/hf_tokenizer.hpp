// tokenizer.json, tokenizer_config.json and chat templates of a Hugging Face folder, translated into tokenizer.ggml.*
// keys, and into troupe.tokenizer.* where GGUF has none. Internal to formats/.
#pragma once

#include "core/result.hpp"
#include "model/formats/assembled_file.hpp"
#include "model/formats/hf_config.hpp"
#include "model/formats/json_file.hpp"

namespace troupe::model::detail {

/// `settings` is tokenizer_config.json or null. model_unsupported naming a kind of model, normalizer, pre-tokenizer or
/// regular expression this build does not have; model_malformed for ids that collide or leave the vocabulary.
result<void> translate_tokenizer(
    const json_document& tokenizer, const json_document* settings, const hf_config& config, assembled_file& out);

/// The template of tokenizer_config.json, if there is one.
result<void> translate_template(const json_document& settings, assembled_file& out);

}  // namespace troupe::model::detail
