// What the front needs of a model file: vocabulary, chat format and the facts for /v1/models. No weights are loaded
// here.
#pragma once

#include <memory>
#include <string>

#include "actors/tokenizer/tokenizer_actor.hpp"
#include "core/ports.hpp"
#include "core/result.hpp"

namespace troupe::actors {

struct text_model {
    std::shared_ptr<const text_tools> tools;
    model_card card;  ///< n_ctx: what the file and the configuration allow
};

/// `spec`: PATH or NAME=PATH (the name defaults to the file's stem).
struct model_spec {
    std::string name, path;
};
model_spec parse_model_spec(const std::string& spec);

/// model_missing, model_malformed, model_unsupported.
result<std::shared_ptr<const text_model>> load_text_model(const model_spec& spec, std::int64_t ctx_size);

}  // namespace troupe::actors
