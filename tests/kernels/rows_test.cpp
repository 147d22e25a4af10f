// Row ops of every table against ref: all lengths below two vectors and some long ones, misaligned, poison around.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "kernel_support.hpp"
#include "kernels/ops.hpp"

namespace troupe::kernels {
namespace {

using testing::floats;
using testing::half_ulp;
using testing::machine;

class rows : public ::testing::TestWithParam<const ops*> {
 protected:
    const ops& fast = *GetParam();
    const ops& ref = *available_tables()[0];
    std::mt19937 random{7};
    machine m{fast, 2, 64, 8192};
    machine r{ref, 1, 64, 8192};

    /// body(n, dim, misalign) for the lengths that matter.
    template <class Body> void each_shape(Body body) {
        for (std::int64_t dim = 1; dim <= 33; ++dim) body(1 + dim % 3, dim, static_cast<std::size_t>(dim % 5));
        for (const std::int64_t dim : {64, 577, 640, 1536, 5000}) body(5, dim, static_cast<std::size_t>(dim % 7));
    }
    static std::size_t count(std::int64_t n, std::int64_t dim) { return static_cast<std::size_t>(n * dim); }
};

TEST_P(rows, rms_norm) {
    // y = x * factor * w: the sum is in double, then factor, two products and ref's own result round once each.
    each_shape([&](std::int64_t n, std::int64_t dim, std::size_t misalign) {
        floats x(count(n, dim), misalign), w(static_cast<std::size_t>(dim), misalign + 1), y(count(n, dim), 2),
            expected(count(n, dim));
        x.fill(random), w.fill(random);
        for (const float* weights : {static_cast<const float*>(w.data()), static_cast<const float*>(nullptr)}) {
            fast.rms_norm(m.ctx(), x.data(), weights, n, dim, 1e-5f, y.data());
            ref.rms_norm(r.ctx(), x.data(), weights, n, dim, 1e-5f, expected.data());
            for (std::size_t i = 0; i < y.size(); ++i)
                ASSERT_NEAR(y[i], expected[i], 4 * half_ulp * std::abs(expected[i])) << dim;
        }
        floats in_place(x);
        fast.rms_norm(m.ctx(), x.data(), w.data(), n, dim, 1e-5f, y.data());
        fast.rms_norm(m.ctx(), in_place.data(), w.data(), n, dim, 1e-5f, in_place.data());
        ASSERT_TRUE(y.same_bits(in_place));
        ASSERT_TRUE(y.intact() && in_place.intact());
    });
}

TEST_P(rows, add_is_exact) {
    each_shape([&](std::int64_t n, std::int64_t dim, std::size_t misalign) {
        floats x(count(n, dim), misalign), y(count(n, dim), 3);
        x.fill(random), y.fill(random);
        floats expected(x);
        fast.add(m.ctx(), x.data(), y.data(), n, dim);
        ref.add(r.ctx(), expected.data(), y.data(), n, dim);
        ASSERT_TRUE(x.same_bits(expected) && x.intact());
    });
}

TEST_P(rows, gated) {
    // x / (1 + e^-z) * u: exp 3 half units, 1 +, /, * u and ref one each; z of GELU carries a relative error of about
    // three roundings, which exp turns into |z| times that. Where e^-z overflows the result is 0 instead of below
    // 1e-35.
    for (const gate kind : {gate::silu, gate::gelu_tanh}) {
        each_shape([&](std::int64_t n, std::int64_t dim, std::size_t misalign) {
            floats g(count(n, dim), misalign), u(count(n, dim), 1), y(count(n, dim), 2), expected(count(n, dim));
            const float range = dim % 2 != 0 ? 4.0f : 120.0f;
            g.fill(random, -range, range), u.fill(random);
            fast.gated(m.ctx(), kind, g.data(), u.data(), n, dim, y.data());
            ref.gated(r.ctx(), kind, g.data(), u.data(), n, dim, expected.data());
            for (std::size_t i = 0; i < y.size(); ++i) {
                const double x = g[i], z = kind == gate::silu ? x : 1.5957691216 * (x + 0.044715 * x * x * x);
                const double roundings = 8 + (kind == gate::gelu_tanh ? 3 * std::abs(z) : 0);
                ASSERT_NEAR(y[i], expected[i], roundings * half_ulp * std::abs(expected[i]) + 1e-35) << x;
            }
            floats over_u(u);
            fast.gated(m.ctx(), kind, g.data(), over_u.data(), n, dim, over_u.data());
            ASSERT_TRUE(y.same_bits(over_u) && y.intact() && over_u.intact());
        });
    }
}

TEST_P(rows, softcap) {
    // cap * tanh(x * (1 / cap)): 1 / cap, its product, tanh (6), the product with cap, ref.
    each_shape([&](std::int64_t n, std::int64_t dim, std::size_t misalign) {
        floats x(count(n, dim), misalign);
        x.fill(random, -200, 200);
        floats expected(x);
        fast.softcap(m.ctx(), x.data(), n, dim, 30.0f);
        ref.softcap(r.ctx(), expected.data(), n, dim, 30.0f);
        for (std::size_t i = 0; i < x.size(); ++i)
            ASSERT_NEAR(x[i], expected[i], 10 * half_ulp * std::abs(expected[i]));
        ASSERT_TRUE(x.intact());
    });
}

TEST_P(rows, rope) {
    constexpr int n = 5;
    std::vector<std::int32_t> positions{0, 1, 127, 8191, 131071};
    for (const int head_dim : {2, 6, 16, 64, 80, 96, 128, 256}) {
        for (const int half : {head_dim / 2, (head_dim + 3) / 4}) {
            std::vector<double> frequencies;
            for (int j = 0; j < half; ++j) frequencies.push_back(std::pow(10000.0, -j / static_cast<double>(half)));
            floats angles(static_cast<std::size_t>(n * 2 * half), 1), expected_angles(angles.size());
            fast.rope_angles(m.ctx(), frequencies.data(), half, 1.19, positions.data(), n, angles.data());
            ref.rope_angles(r.ctx(), frequencies.data(), half, 1.19, positions.data(), n, expected_angles.data());
            ASSERT_TRUE(angles.same_bits(expected_angles) && angles.intact());
            for (const rope_pairs pairs : {rope_pairs::adjacent, rope_pairs::halves}) {
                constexpr int heads = 3;
                floats x(static_cast<std::size_t>(n * heads * head_dim), 3);
                x.fill(random);
                floats expected(x), before(x);
                fast.rope(m.ctx(), x.data(), n, heads, head_dim, half, pairs, angles.data());
                ref.rope(r.ctx(), expected.data(), n, heads, head_dim, half, pairs, angles.data());
                // Two products of values up to 2, one of them rounded, and the final roundings of both tables.
                for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], expected[i], 3 * half_ulp * 4);
                for (std::size_t i = 0; i < x.size(); ++i) {
                    const bool rotated = static_cast<int>(i) % head_dim < 2 * half;
                    ASSERT_TRUE(rotated || x[i] == before[i]);
                }
                ASSERT_TRUE(x.intact());
            }
        }
    }
}

TEST_P(rows, embed_is_exact) {
    std::vector<std::byte> table(34 * 4 * 10);
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::byte>(i % 34 == 1 ? 0x20 : i * 37 % 251);
    const std::vector<std::int32_t> ids{9, 0, 3, 3, 7};
    floats y(5 * 128, 1), expected(5 * 128);
    fast.embed(m.ctx(), dtype::q8_0, 128, table.data(), ids.data(), 5, 24.0f, y.data());
    ref.embed(r.ctx(), dtype::q8_0, 128, table.data(), ids.data(), 5, 24.0f, expected.data());
    EXPECT_TRUE(y.same_bits(expected) && y.intact());
    EXPECT_NE(y[0], y[128]);
}

TEST_P(rows, all_finite_sees_every_place) {
    for (std::int64_t n = 0; n <= 50; ++n) {
        floats x(static_cast<std::size_t>(n), 1);
        x.fill(random, -1e38f, 1e38f);
        EXPECT_TRUE(fast.all_finite(x.data(), n));
        for (std::int64_t i = 0; i < n; ++i)
            for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                     std::numeric_limits<float>::quiet_NaN()}) {
                const float kept = std::exchange(x[static_cast<std::size_t>(i)], bad);
                EXPECT_FALSE(fast.all_finite(x.data(), n)) << n << " " << i;
                x[static_cast<std::size_t>(i)] = kept;
            }
    }
}

/// Bits of a row alone on one thread equal those of the row in a batch on three.
TEST_P(rows, a_row_does_not_see_the_batch) {
    constexpr std::int64_t n = 37, dim = 577;
    machine three(fast, 3, 64, 8192), one(fast, 1, 64, 8192);
    floats x(count(n, dim)), w(dim), batch(count(n, dim)), alone(count(n, dim), 3);
    x.fill(random), w.fill(random);
    fast.rms_norm(three.ctx(), x.data(), w.data(), n, dim, 1e-6f, batch.data());
    fast.gated(three.ctx(), gate::silu, batch.data(), x.data(), n, dim, batch.data());
    fast.softcap(three.ctx(), batch.data(), n, dim, 3.0f);
    for (std::int64_t i = 0; i < n; ++i) {
        float* row = alone.data() + i * dim;
        fast.rms_norm(one.ctx(), x.data() + i * dim, w.data(), 1, dim, 1e-6f, row);
        fast.gated(one.ctx(), gate::silu, row, x.data() + i * dim, 1, dim, row);
        fast.softcap(one.ctx(), row, 1, dim, 3.0f);
    }
    EXPECT_TRUE(batch.same_bits(alone));
}

INSTANTIATE_TEST_SUITE_P(tables, rows, ::testing::ValuesIn(available_tables()), testing::table_name);

}  // namespace
}  // namespace troupe::kernels
