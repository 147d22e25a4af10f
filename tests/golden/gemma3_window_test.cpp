// Gemma 3 270M Q4_K_M beyond its window of 512: every second of the last 80 positions of 640 (see real_models.hpp).
#include "tests/golden/real_models.hpp"

namespace troupe::testing {
namespace {

TEST(gemma3_golden, divergence_beyond_the_window_is_within_llama_cpps) {
  check_divergence("gemma3-270m.gguf", real_reference("gemma3-270m-640", 8), 560, 2);
}

}  // namespace
}  // namespace troupe::testing
