// `troupe quantize`: a model file in other types. Memory stays bounded: the input is a map, rows are converted in
// pieces on all threads, and the output appears under its name only when it is complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "core/result.hpp"
#include "model/quant/importance.hpp"
#include "model/quant/tensor_types.hpp"

namespace troupe::model {

struct quantize_options {
    std::filesystem::path input, output;
    type_choice choice;
    bool copy = false;              ///< every tensor as it is; choice is not used
    bool allow_requantize = false;  ///< tensors that are quantized already may be quantized again
    bool dry_run = false;           ///< plan and report only; output is not used
    const importance_matrix* importance = nullptr;
    std::string importance_file;  ///< its name, for the metadata
    int n_threads = 1;
};

/// What happens to one tensor; reported before the work on it.
struct quantize_step {
    const model_tensor* tensor = nullptr;
    kernels::dtype type{};
    std::uint64_t bytes = 0;
    bool fallback = false;            ///< blocks of the wanted type did not fit
    bool without_importance = false;  ///< an importance matrix is used but says nothing about this tensor
    std::size_t index = 0, count = 0;
};

struct quantize_summary {
    std::uint64_t bytes_before = 0, bytes_after = 0, values = 0;
    std::size_t n_fallback = 0;
};

/// model_missing, model_malformed (also values that are not finite), model_unsupported (types, split files; a quantized
/// input without allow_requantize), usage (input and output are one file), io. On an error there is no output.
result<quantize_summary> quantize_model(
    const quantize_options& options, const std::function<void(const quantize_step&)>& report);

}  // namespace troupe::model
