// config.json and generation_config.json of a Hugging Face folder, translated into the GGUF keys families read.
// Internal to formats/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "model/formats/assembled_file.hpp"
#include "model/formats/json_file.hpp"

namespace troupe::model::detail {

/// What the tensors and the tokenizer need to know of the configuration.
struct hf_config {
    std::string architecture;  ///< GGUF's name: "llama"
    std::int64_t n_layers = 0, n_heads = 0, n_kv_heads = 0, n_vocab = 0, n_experts = 0;
    bool adjacent_rope = false;   ///< q and k rows are permuted as llama GGUFs have them
    bool norms_plus_one = false;  ///< gemma: the file holds w - 1
    bool four_norms = false;      ///< gemma: norms behind attention and FFN too
    bool tied = false;            ///< output matrix = embeddings
    bool awq = false;
    std::int64_t awq_group = 0;                       ///< values of a row that share a scale
    bool awq_zero_point = true;                       ///< false: tensors without qzeros have zero 8
    std::vector<std::string> not_converted;           ///< modules the quantizer left alone
    std::vector<double> long_factors, short_factors;  ///< longrope; else empty
    std::vector<std::int64_t> bos, eos;               ///< ids named by either file, in order of preference
};

/// Sets every key of the architecture in `out`. model_unsupported naming an unknown architecture, activation, rope
/// scaling or quantization.
result<hf_config> translate_config(const json_document& config, const json_document* generation, assembled_file& out);

}  // namespace troupe::model::detail
