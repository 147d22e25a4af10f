// A Hugging Face model folder: config.json, *.safetensors, tokenizer.json and what belongs to them, read as a
// model_file.
#pragma once

#include <filesystem>
#include <memory>

#include "core/result.hpp"
#include "model/formats/model_file.hpp"

namespace troupe::model {

/// model_missing for a file that is not there, model_malformed and model_unsupported as the parts say. Every file lies
/// in the folder itself: names in an index that leave it are refused. Links are followed, as a download cache needs.
result<std::shared_ptr<const model_file>> open_hf_folder(const std::filesystem::path& folder);

}  // namespace troupe::model
