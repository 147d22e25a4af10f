// SmolLM2-135M-Instruct Q4_1 against its float reference (see real_models.hpp).
#include "tests/golden/real_models.hpp"

namespace troupe::testing {
namespace {

TEST(smollm2_golden, divergence_is_within_llama_cpps) {
    check_divergence("smollm2.gguf", real_reference("smollm2", 20), 0, 1);
}

TEST(smollm2_golden, reference_text_is_chosen_again) { check_greedy("smollm2.gguf", "smollm2", 1.05 * 3.234e-3, 100); }

}  // namespace
}  // namespace troupe::testing
