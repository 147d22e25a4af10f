// Gemma 3 270M Q4_K_M against its float reference (see real_models.hpp). Every fourth position: `ref` takes its time
// over a vocabulary of 262,144.
#include "tests/golden/real_models.hpp"

namespace troupe::testing {
namespace {

TEST(gemma3_golden, divergence_is_within_llama_cpps) {
    check_divergence("gemma3-270m.gguf", real_reference("gemma3-270m", 20), 0, 4);
}

}  // namespace
}  // namespace troupe::testing
