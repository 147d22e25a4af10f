// The 16-lane kernels, emulated, must give the bits of the 8-lane ones: the integer sums are exact and the float
// operations of a lane are the same. This is how the AVX-512 code is checked on processors without AVX-512.
#include <gtest/gtest.h>

#include <cstring>

#include "kernels/cpu/linear_kernels.hpp"
#include "kernels/cpu/pack.hpp"
#include "tests/kernels/linear/linear_support.hpp"

namespace troupe::kernels {
namespace avx512_emulated {
extern const linear_kernels linear_kernel_set;
}

namespace linear_test {
namespace {

/// y[n][rows] by one kernel set, without the driver.
std::vector<float> multiply(const linear_kernels& set, const file_matrix& m, const std::vector<float>& x,
    std::int64_t n, const std::vector<float>& bias) {
    pool threads(1);
    aligned_bytes packed(packed_weight_bytes(m.type, m.rows, m.cols, set.lanes));
    pack_weight(threads, m.type, m.rows, m.cols, set.lanes, set.offset_q8, m.bytes.data(), packed.data());
    std::vector<act_block> q(static_cast<std::size_t>(n * m.cols / 32 + 1));
    if (info(m.type).quantized)
        for (std::int64_t t = 0; t < n; ++t) set.quantize(x.data() + t * m.cols, m.cols, q.data() + t * m.cols / 32);
    std::vector<float> y(static_cast<std::size_t>(n * m.rows));
    const packed_group layout = packed_group_layout(m.type, m.cols, set.lanes);
    const linear_args args{.w = packed.data(),
        .rows = m.rows,
        .cols = m.cols,
        .group_bytes = layout.bytes,
        .scale_bytes = layout.scale_bytes,
        .q = q.data(),
        .x = x.data(),
        .n = n,
        .bias = bias.data(),
        .y = y.data(),
        .ldy = m.rows};
    set.rows[static_cast<int>(m.type)](args, 0, (m.rows + set.lanes - 1) / set.lanes);
    return y;
}

void expect_same_bits(const file_matrix& m, const std::vector<float>& x, std::int64_t n, std::mt19937& random) {
    const std::vector<float> bias = random_activations(1, m.rows, random);
    const std::vector<float> a = multiply(avx2::linear_kernel_set, m, x, n, bias);
    const std::vector<float> b = multiply(avx512_emulated::linear_kernel_set, m, x, n, bias);
    for (std::size_t i = 0; i < a.size(); ++i)
        ASSERT_EQ(std::memcmp(&a[i], &b[i], sizeof(float)), 0)
            << info(m.type).name << " rows " << m.rows << " at " << i << ": " << a[i] << " and " << b[i];
}

TEST(LinearEmulated, SixteenLanesGiveTheBitsOfEight) {
    std::mt19937 random(7);
    for (const dtype type : all_types)
        for (const std::int64_t rows : {1, 8, 15, 16, 17, 80, 85})
            for (const std::int64_t n : {1, 3, 8, 15}) {
                const file_matrix m = random_matrix(type, rows, 512, random);
                expect_same_bits(m, random_activations(n, 512, random), n, random);
            }
}

TEST(LinearEmulated, TheLargestSumsToo) {
    std::mt19937 random(8);
    for (const dtype type : all_types) {
        if (!info(type).quantized) continue;
        for (const std::uint8_t fill : {0x00, 0x7f, 0x80, 0xff})
            for (const float x : {2.0f, -2.0f})
                expect_same_bits(filled_matrix(type, 17, 256, fill), std::vector<float>(5 * 256, x), 5, random);
    }
}

}  // namespace
}  // namespace linear_test
}  // namespace troupe::kernels
