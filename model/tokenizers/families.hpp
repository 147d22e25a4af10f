// The two families of tokenizers, one factory each. Internal to tokenizers/.
#pragma once

#include <memory>

#include "model/tokenizers/tokenizer.hpp"

namespace troupe::model {

/// Byte-level BPE ("gpt2").
result<std::shared_ptr<const tokenizer>> load_bpe(const model_file& file);
/// SentencePiece-style merging by score ("llama").
result<std::shared_ptr<const tokenizer>> load_spm(const model_file& file);

}  // namespace troupe::model
