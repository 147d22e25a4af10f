// Which type each tensor of a file becomes: the mixes behind names such as Q4_K_M. The rules are llama-quantize's
// (facts from libllama, mainline commit of llama-cpp-python 0.3.36), so that files of one name have one size
// everywhere.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/result.hpp"
#include "model/formats/gguf.hpp"
#include "model/quant/file_type.hpp"

namespace troupe::model {

struct type_choice {
    file_type type = file_type::q4_k_m;
    bool pure = false;                                              ///< no mix: every matrix gets the base type
    bool keep_output = false;                                       ///< output.weight stays as it is
    bool importance = false;                                        ///< an importance matrix is used: some rules ask
    std::optional<kernels::dtype> output, embedding;                ///< instead of what the rules say
    std::vector<std::pair<std::string, kernels::dtype>> with_name;  ///< tensors whose name contains the text
};

struct tensor_plan {
    kernels::dtype type{};
    bool fallback = false;  ///< the wanted type's blocks do not fit its rows
};

/// One entry a tensor, in the file's order. model_malformed for metadata that is not what it must be.
result<std::vector<tensor_plan>> plan_tensor_types(const model_file& file, const type_choice& choice);

}  // namespace troupe::model
