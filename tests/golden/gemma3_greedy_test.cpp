// Gemma 3 270M Q4_K_M fed its reference text (see real_models.hpp).
#include "tests/golden/real_models.hpp"

namespace troupe::testing {
namespace {

TEST(gemma3_golden, reference_text_is_chosen_again) {
    check_greedy("gemma3-270m.gguf", "gemma3-270m", 1.05 * 7.302e-3, 90);
}

}  // namespace
}  // namespace troupe::testing
