// One line a family file.
#pragma once

#include "model/architectures/architecture.hpp"

namespace troupe::model {

extern const architecture llama_architecture;
extern const architecture gemma3_architecture;

}  // namespace troupe::model
