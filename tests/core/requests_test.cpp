// overlay: the nearer level wins where it says something.
#include "core/requests.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

TEST(requests, overlay_takes_what_is_said) {
    generation_params base, over;
    base.temperature = 0.8;
    base.top_k = 40;
    base.stop = std::vector<std::string>{"a"};
    over.temperature = 0;
    over.stop = std::vector<std::string>{};
    const auto r = overlay(base, over);
    EXPECT_EQ(r.temperature, 0.0);
    EXPECT_EQ(r.top_k, 40);
    EXPECT_TRUE(r.stop->empty());
    EXPECT_FALSE(r.seed.has_value());
}

TEST(requests, overlay_with_nothing_is_the_base) {
    generation_params base;
    base.seed = 7;
    base.max_tokens = 3;
    base.n_logprobs = 2;
    base.template_kwargs = "{}";
    EXPECT_EQ(overlay(base, {}), base);
    EXPECT_EQ(overlay({}, base), base);
}

}  // namespace
}  // namespace troupe
