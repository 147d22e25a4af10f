// Dequantization and half conversions: bit equality with ggml's results (tests/data/dequant) and with exact arithmetic.
#include "kernels/types.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/figures.hpp"

namespace troupe::kernels {
namespace {

std::vector<char> read_file(const std::string& name) {
    const char* root = std::getenv("TROUPE_SOURCE_DIR");
    EXPECT_NE(root, nullptr);
    std::ifstream in(std::string(root ? root : "") + "/tests/data/dequant/" + name, std::ios::binary);
    EXPECT_TRUE(in.good()) << name;
    return {std::istreambuf_iterator<char>(in), {}};
}

class golden : public ::testing::TestWithParam<dtype> {};

TEST_P(golden, dequantize_is_bit_identical) {
    const std::string name(info(GetParam()).name);
    const std::vector<char> raw = read_file(name + ".raw"), expected = read_file(name + ".f32");
    const std::size_t n = expected.size() / sizeof(float);
    ASSERT_EQ(raw.size(), row_bytes(GetParam(), static_cast<std::int64_t>(n)));
    std::vector<float> got(n + 1, 7.0f);
    dequantize(GetParam(), reinterpret_cast<const std::byte*>(raw.data()), static_cast<std::int64_t>(n), got.data());
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), expected.size()), 0);
    EXPECT_EQ(got[n], 7.0f);
    troupe::testing::record_figure("Dequantization", name + ", beside ggml's to_float",
        HasFailure() ? "bits differ" : fmt::format("{0} of {0} values equal", n), "every bit");
}

TEST_P(golden, name_is_found) { EXPECT_EQ(dtype_from_name(info(GetParam()).name), GetParam()); }

INSTANTIATE_TEST_SUITE_P(types, golden,
    ::testing::Values(dtype::f16, dtype::bf16, dtype::q4_0, dtype::q4_1, dtype::q8_0, dtype::q4_k, dtype::q5_k,
        dtype::q6_k, dtype::q5_0, dtype::q5_1, dtype::q2_k, dtype::q3_k, dtype::iq4_nl, dtype::iq4_xs, dtype::mxfp4),
    [](const auto& test) { return std::string(troupe::kernels::info(test.param).name); });

TEST(types, unknown_name) { EXPECT_FALSE(dtype_from_name("q9_9").has_value()); }

TEST(types, every_half_survives_a_round_trip) {
    for (std::uint32_t h = 0; h < 0x10000; ++h) {
        const float f = half_to_float(static_cast<std::uint16_t>(h));
        const std::uint16_t back = float_to_half(f);
        if (std::isnan(f))
            EXPECT_EQ(back, h | 0x200) << h;
        else
            EXPECT_EQ(back, h) << h;
    }
}

double exact_half(std::uint32_t h) {
    const int exponent = static_cast<int>(h >> 10 & 31);
    const double fraction = h & 0x3ff;
    return exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
}

TEST(types, float_to_half_rounds_to_nearest_even) {
    for (std::uint32_t h = 0; h < 0x7bff; ++h) {
        const double low = exact_half(h), high = exact_half(h + 1);
        const float middle = static_cast<float>((low + high) / 2);  // exact: one bit more than a half has
        EXPECT_EQ(float_to_half(middle), h + (h & 1));
        EXPECT_EQ(float_to_half(std::nextafter(middle, 1e9f)), h + 1);
        EXPECT_EQ(float_to_half(std::nextafter(middle, 0.0f)), h);
        EXPECT_EQ(float_to_half(-middle), (h + (h & 1)) | 0x8000);
    }
    EXPECT_EQ(float_to_half(65519.996f), 0x7bff);
    EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
    EXPECT_EQ(float_to_half(std::numeric_limits<float>::infinity()), 0x7c00);
    EXPECT_EQ(float_to_half(1e-30f), 0);
    EXPECT_TRUE(std::isnan(half_to_float(float_to_half(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(types, bfloat_rounds_to_nearest_even_and_keeps_nan) {
    for (std::uint32_t h = 0; h < 0x7f7f; ++h) {
        const float middle = std::bit_cast<float>(h << 16 | 0x8000);
        EXPECT_EQ(float_to_bfloat(middle), h + (h & 1));
        EXPECT_EQ(float_to_bfloat(std::bit_cast<float>(h << 16 | 0x8001)), h + 1);
        EXPECT_EQ(float_to_bfloat(std::bit_cast<float>(h << 16 | 0x7fff)), h);
    }
    EXPECT_TRUE(std::isnan(bfloat_to_float(float_to_bfloat(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace troupe::kernels
