// Rows of every type: what the format can hold exactly comes back exactly, the search is no worse than rounding,
// weights count, and odd values stay finite.
#include "model/formats/ggml_types.hpp"
#include "model/quant/quantize_row.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/support/test_models.hpp"

namespace troupe::model {
namespace {

using kernels::dtype;

constexpr dtype quantized[] = {dtype::q4_0, dtype::q4_1, dtype::q5_0, dtype::q5_1, dtype::q8_0, dtype::q2_k,
    dtype::q3_k, dtype::q4_k, dtype::q5_k, dtype::q6_k, dtype::iq4_nl, dtype::iq4_xs};

std::vector<float> there_and_back(dtype type, const std::vector<float>& x, const float* importance = nullptr) {
    const auto n = static_cast<std::int64_t>(x.size());
    std::vector<std::byte> bytes(kernels::row_bytes(type, n) + 1, std::byte{0x5a});
    quantize_row(type, x.data(), importance, n, bytes.data());
    EXPECT_EQ(bytes.back(), std::byte{0x5a}) << "written behind the row";
    std::vector<float> y(x.size());
    kernels::dequantize(type, bytes.data(), n, y.data());
    return y;
}

double squared_error(const std::vector<float>& x, const std::vector<float>& y, const std::vector<float>& w = {}) {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
        sum += (w.empty() ? 1.0 : w[i]) * std::pow(static_cast<double>(x[i]) - y[i], 2);
    return sum;
}

std::vector<float> gaussian(std::size_t n, std::uint32_t seed, float scale = 0.02f) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0f, scale);
    std::vector<float> x(n);
    for (float& v : x) v = normal(random);
    return x;
}

TEST(quantize_row, every_type_of_gguf_but_mxfp4_can_be_written) {
    for (int t = 0; t < static_cast<int>(dtype::count_); ++t) {
        const auto type = static_cast<dtype>(t);
        EXPECT_EQ(can_quantize_to(type), type != dtype::mxfp4 && ggml_number(type).has_value());
    }
}

TEST(quantize_row, float_types_round_to_nearest) {
    const std::vector<float> x = gaussian(64, 1);
    EXPECT_EQ(there_and_back(dtype::f32, x), x);
    for (std::size_t i = 0; i < x.size(); ++i) {
        EXPECT_EQ(there_and_back(dtype::f16, x)[i], kernels::half_to_float(kernels::float_to_half(x[i])));
        EXPECT_EQ(there_and_back(dtype::bf16, x)[i], kernels::bfloat_to_float(kernels::float_to_bfloat(x[i])));
    }
}

// Values a block can hold with a scale that is a power of two: the search must find them without error.
TEST(quantize_row, what_the_format_can_hold_comes_back) {
    std::mt19937 random(2);
    for (const auto& [type, low, high] :
        {std::tuple{dtype::q4_0, -8, 7}, {dtype::q5_0, -16, 15}, {dtype::q8_0, -127, 127}, {dtype::q4_1, 3, 18},
            {dtype::q5_1, -4, 27}, {dtype::q6_k, -32, 31}, {dtype::q3_k, -4, 3}}) {
        std::vector<float> x(512);
        for (float& v : x)
            v = 0.125f * static_cast<float>(low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1)));
        for (std::size_t i = 0; i < x.size(); i += 16) {  // every group holds both ends
            x[i] = 0.125f * static_cast<float>(low);
            x[i + 1] = 0.125f * static_cast<float>(high);
        }
        EXPECT_EQ(there_and_back(type, x), x) << kernels::info(type).name;
    }
}

TEST(quantize_row, never_worse_than_rounding_to_an_even_grid) {
    const std::vector<float> x = gaussian(4096, 3);
    double last = 1e9;
    for (const dtype type :
        {dtype::q2_k, dtype::q3_k, dtype::q4_0, dtype::q4_k, dtype::q5_0, dtype::q5_k, dtype::q6_k, dtype::q8_0}) {
        const double error = squared_error(x, there_and_back(type, x));
        EXPECT_LT(error, last) << kernels::info(type).name << ": more bits, less error";
        last = error;
    }
    // Q8_0 by the book: largest value / 127 as scale, rounded values.
    double book = 0;
    for (std::size_t b = 0; b < x.size(); b += 32) {
        float peak = 0;
        for (std::size_t i = b; i < b + 32; ++i) peak = std::max(peak, std::fabs(x[i]));
        const float d = kernels::half_to_float(kernels::float_to_half(peak / 127));
        for (std::size_t i = b; i < b + 32; ++i) book += std::pow(x[i] - d * std::nearbyint(x[i] / d), 2.0);
    }
    EXPECT_LT(last, 0.85 * book);
}

TEST(quantize_row, importance_moves_the_error_where_it_matters_less) {
    std::mt19937 random(4);
    const std::vector<float> x = gaussian(4096, 5);
    std::vector<float> w(x.size());
    for (float& v : w) v = random() % 8 == 0 ? 100.0f : 0.5f;
    for (const dtype type : quantized) {
        const double plain = squared_error(x, there_and_back(type, x), w);
        const double weighted = squared_error(x, there_and_back(type, x, w.data()), w);
        EXPECT_LT(weighted, 0.95 * plain) << kernels::info(type).name;
    }
    const std::vector<float> none(x.size(), 0.0f);
    for (const dtype type : quantized)
        EXPECT_EQ(there_and_back(type, x, none.data()), there_and_back(type, x))
            << "no importance at all is none known";
}

TEST(quantize_row, odd_rows_stay_finite_and_close) {
    for (const dtype type : quantized) {
        SCOPED_TRACE(std::string(kernels::info(type).name));
        EXPECT_EQ(there_and_back(type, std::vector<float>(256, 0.0f)), std::vector<float>(256, 0.0f));
        for (const float v : {1.0f, -1.0f, 65504.0f, -65504.0f, 0.1f, -0.1f}) {
            const std::vector<float> x(256, v);
            for (const float y : there_and_back(type, x)) EXPECT_NEAR(y, v, 0.01f * std::fabs(v));
        }
        for (const float v : {1e-20f, -1e-40f, 1e-45f, 3e-8f})  // below what an f16 scale can hold
            for (const float y : there_and_back(type, std::vector<float>(256, v))) EXPECT_NEAR(y, 0.0f, 1e-6f);
        std::vector<float> spike(256, 0.0f);
        spike[37] = -3.5f;
        const auto y = there_and_back(type, spike);
        EXPECT_NEAR(y[37], -3.5f, 0.01f);
        EXPECT_LT(squared_error(spike, y), 0.03);  // iq4 has no level zero: 31 values are 1 / 127 of the spike off
    }
}

}  // namespace
}  // namespace troupe::model
