// The families this build knows.
#include <array>

#include "model/architectures/families.hpp"
#include "model/model.hpp"

namespace troupe::model {

std::span<const architecture* const> architectures() {
    static constexpr std::array<const architecture*, 2> all = {&llama_architecture, &gemma3_architecture};
    return all;
}

}  // namespace troupe::model
