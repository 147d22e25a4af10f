// exp and tanh of the CPU kernels: exact where the design asks, else within their stated error of double arithmetic.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernel_support.hpp"
#include "kernels/cpu/isa.hpp"

namespace troupe::kernels {
namespace {

using testing::floats;

std::vector<const isa_kernels*> sets() {
    std::vector<const isa_kernels*> found;
    if (table("avx2").ok()) found.push_back(&avx2::kernel_set);
    if (table("avx512").ok()) found.push_back(&avx512::kernel_set);
    return found;
}

/// Units in the last place of a float near `exact`; subnormal floats have the spacing of the smallest normal.
double ulp(double exact) { return std::ldexp(1.0, std::max(std::ilogb(exact), -126) - 23); }

using function = void (*)(const float*, std::int64_t, float*);

double worst_error(function f, double (*exact)(double), float low, float high, int steps) {
    floats x(static_cast<std::size_t>(steps)), y(x.size());
    for (int i = 0; i < steps; ++i)
        x[static_cast<std::size_t>(i)] = low + static_cast<float>(i) * ((high - low) / static_cast<float>(steps));
    f(x.data(), steps, y.data());
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double e = exact(x[i]);
        if (e != 0) worst = std::max(worst, std::abs(y[i] - e) / ulp(e));
    }
    return worst;
}

TEST(math, there_is_a_set_to_test) { EXPECT_FALSE(sets().empty()) << "this test needs a processor with AVX2"; }

TEST(math, exp_error) {
    for (const isa_kernels* k : sets()) {
        EXPECT_LE(worst_error(k->exp, std::exp, -87.3f, 88.7f, 1 << 20), 1.5);
        EXPECT_LE(worst_error(k->exp, std::exp, -1.0f, 1.0f, 1 << 18), 1.5);
        EXPECT_LE(worst_error(k->exp, std::exp, -104.0f, -87.0f, 1 << 16), 1.0);  // subnormal
    }
}

TEST(math, tanh_error) {
    for (const isa_kernels* k : sets()) {
        EXPECT_LE(worst_error(k->tanh, std::tanh, -12.0f, 12.0f, 1 << 20), 3.0);
        EXPECT_LE(worst_error(k->tanh, std::tanh, -1e-3f, 1e-3f, 1 << 18), 3.0);
        EXPECT_LE(worst_error(k->tanh, std::tanh, -1e-37f, 1e-37f, 1 << 10), 3.0);
    }
}

float one(function f, float x) {
    float y = -7;
    f(&x, 1, &y);
    return y;
}

TEST(math, exact_values) {
    constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    for (const isa_kernels* k : sets()) {
        EXPECT_EQ(one(k->exp, 0.0f), 1.0f);
        EXPECT_EQ(one(k->exp, -0.0f), 1.0f);
        EXPECT_EQ(one(k->exp, -inf), 0.0f);
        EXPECT_EQ(one(k->exp, -1e30f), 0.0f);
        EXPECT_EQ(one(k->exp, inf), inf);
        EXPECT_EQ(one(k->exp, 88.8f), inf);
        EXPECT_TRUE(std::isnan(one(k->exp, nan)));
        EXPECT_EQ(one(k->tanh, inf), 1.0f);
        EXPECT_EQ(one(k->tanh, -inf), -1.0f);
        EXPECT_EQ(one(k->tanh, 0.0f), 0.0f);
        EXPECT_TRUE(std::signbit(one(k->tanh, -0.0f)));
        EXPECT_TRUE(std::isnan(one(k->tanh, nan)));
    }
}

/// The bits of a value do not depend on its place: whole vectors, tails of every length.
TEST(math, tails_have_the_bits_of_vectors) {
    std::mt19937 random(1);
    floats x(64), whole(64);
    x.fill(random, -30, 30);
    for (const isa_kernels* k : sets()) {
        k->exp(x.data(), 64, whole.data());
        for (std::size_t from = 0; from < 32; ++from)
            for (std::size_t n = 1; n <= 32; ++n) {
                floats part(n, 1);
                k->exp(x.data() + from, static_cast<std::int64_t>(n), part.data());
                ASSERT_EQ(std::memcmp(part.data(), whole.data() + from, 4 * n), 0);
                ASSERT_TRUE(part.intact());
            }
    }
}

}  // namespace
}  // namespace troupe::kernels
