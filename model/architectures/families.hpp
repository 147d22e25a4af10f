// One line a family.
#pragma once

#include "model/architectures/architecture.hpp"

namespace troupe::model {

extern const architecture llama_architecture;
extern const architecture smollm3_architecture;
extern const architecture qwen2_architecture;
extern const architecture qwen3_architecture;
extern const architecture gemma2_architecture;
extern const architecture gemma3_architecture;
extern const architecture phi3_architecture;
extern const architecture deepseek2_architecture;

}  // namespace troupe::model
