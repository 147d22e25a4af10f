// The chat format a model file asks for: its own template, or a built-in one that fits its vocabulary.
#pragma once

#include <memory>

#include "model/formats/model_file.hpp"
#include "model/templates/chat_context.hpp"
#include "model/tokenizers/tokenizer.hpp"

namespace troupe::model {

/// model_unsupported if the file's template does not parse or cannot render a user message.
result<std::shared_ptr<const chat_format>> load_chat_format(const model_file& file, const tokenizer& words);

}  // namespace troupe::model
