// The families this build knows.
#include <array>

#include "model/architectures/families.hpp"
#include "model/model.hpp"

namespace troupe::model {

std::span<const architecture* const> architectures() {
    static constexpr std::array all = {&llama_architecture, &smollm3_architecture, &qwen2_architecture,
        &qwen3_architecture, &gemma2_architecture, &gemma3_architecture, &phi3_architecture, &deepseek2_architecture};
    return all;
}

}  // namespace troupe::model
