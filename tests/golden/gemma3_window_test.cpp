// Gemma 3 270M Q4_K_M beyond its window of 512: every second of the positions 520 to 575 (see real_models.hpp).
#include "tests/golden/real_models.hpp"

namespace troupe::testing {
namespace {

TEST(gemma3_golden, divergence_beyond_the_window_is_within_llama_cpps) {
    real_reference reference("gemma3-270m-640", 8);
    reference.ids.resize(576);
    check_divergence("gemma3-270m.gguf", reference, 520, 2);
}

}  // namespace
}  // namespace troupe::testing
