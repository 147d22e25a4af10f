// Chooses the tokenizer family the file names.
#include "model/tokenizers/tokenizer.hpp"

#include "model/tokenizers/families.hpp"

namespace troupe::model {

result<std::shared_ptr<const tokenizer>> tokenizer::load(const model_file& file) {
    TROUPE_TRY(const auto model, file.get_string("tokenizer.ggml.model"));
    if (!model) return fail(errc::model_malformed, "malformed tokenizer: the file has no tokenizer.ggml.model");
    if (*model == "gpt2") return load_bpe(file);
    if (*model == "llama") return load_spm(file);
    return fail(errc::model_unsupported,
        "unsupported tokenizer '" + std::string(*model) + "'; supported are gpt2 (byte-level BPE) and llama (SPM)");
}

}  // namespace troupe::model
