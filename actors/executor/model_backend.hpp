// The backend that serves: a GGUF model on a CPU op table, its thread pool and its KV memory.
#pragma once

#include <string>
#include <string_view>

#include "actors/executor/arguments.hpp"
#include "actors/executor/backend.hpp"
#include "model/kv_layout.hpp"

namespace troupe::actors {

/// Opens and loads arguments.model, reserves KV addresses, and runs one row to measure the speed. Errors:
/// model_missing, model_malformed, model_unsupported, out_of_memory (with the numbers), usage (kernels, kv_type).
backend_loader load_model(executor_arguments arguments);

inline constexpr std::string_view build_version = "0.1.0";

/// Everything that the bits of KV memory and of results depend on: op table, layout version, KV type, latents, build.
std::string numerics_id(std::string_view table, const model::kv_layout& layout, std::string_view model_numerics);

}  // namespace troupe::actors
