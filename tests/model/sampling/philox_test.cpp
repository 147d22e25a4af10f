// Philox against the known-answer vectors of the Random123 distribution, and the uniform draw made of it.
#include "model/sampling/philox.hpp"

#include <array>
#include <cstdint>

#include "model/sampling/sampler.hpp"

namespace troupe::model {
namespace {

using words = std::array<std::uint32_t, 4>;

TEST(philox, gives_the_known_answers) {
    EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}), (words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    EXPECT_EQ(philox4x32_10({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    EXPECT_EQ(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
        (words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(uniform, fills_the_unit_interval_evenly) {
    constexpr int n = 100'000, bins = 20;
    std::array<int, bins> counts{};
    double sum = 0;
    for (int i = 0; i < n; ++i) {
        const float u = uniform(7, 0, static_cast<std::uint64_t>(i), 0);
        ASSERT_GE(u, 0.0f);
        ASSERT_LT(u, 1.0f);
        ++counts[static_cast<std::size_t>(u * bins)];
        sum += u;
    }
    EXPECT_NEAR(sum / n, 0.5, 0.005);  // 5 sigma of the mean
    double chi_square = 0;
    for (const int c : counts) chi_square += (c - n / bins) * (c - n / bins) / static_cast<double>(n / bins);
    EXPECT_LT(chi_square, 43.8);  // 19 degrees of freedom, p = 0.001
}

TEST(uniform, depends_on_each_of_its_four_keys) {
    const float u = uniform(1, 2, 3, 4);
    EXPECT_EQ(u, uniform(1, 2, 3, 4));
    EXPECT_NE(u, uniform(1ull << 32 | 1, 2, 3, 4));
    EXPECT_NE(u, uniform(1, 3, 3, 4));
    EXPECT_NE(u, uniform(1, 2, 1ull << 32 | 3, 4));
    EXPECT_NE(u, uniform(1, 2, 3, 5));
}

}  // namespace
}  // namespace troupe::model
