// `linear` of every CPU table this processor runs against double arithmetic, and its bits against themselves: alone, in
// a batch, with other thread counts, with other jobs.
#include "kernels/cpu/linear.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "tests/kernels/linear/linear_support.hpp"

namespace troupe::kernels::linear_test {
namespace {

constexpr float poison = -12345.0f;
constexpr double epsilon = std::numeric_limits<float>::epsilon();

struct isa {
    std::string name;
    const linear_ops* ops;
};

std::vector<isa> available() {
    std::vector<isa> out;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) out.push_back({"avx2", &avx2::linear});
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni"))
        out.push_back({"avx512", &avx512::linear});
    return out;
}

struct packed_matrix {
    packed_matrix(const linear_ops& ops, pool& threads, const file_matrix& m)
        : bytes(ops.packed_bytes(m.type, m.rows, m.cols)), w{m.type, m.rows, m.cols, bytes.data()} {
        ops.pack(threads, m.type, m.rows, m.cols, m.bytes.data(), bytes.data());
    }
    aligned_bytes bytes;
    weight w;
};

/// Runs one job; y is [n][rows], taken from a poisoned buffer with a wider stride that must stay poisoned.
std::vector<float> run(const linear_ops& ops, pool& threads, const packed_matrix& m, const std::vector<float>& x,
    std::int64_t n, const float* bias = nullptr) {
    const std::int64_t gap = 5, ldy = m.w.rows + gap;
    std::vector<float> buffer(static_cast<std::size_t>(gap + n * ldy), poison), y;
    const std::size_t size = ops.scratch_bytes(n, m.w.cols);
    aligned_bytes scratch(size);
    context c{threads, {scratch.data(), size}};
    const linear_job job{&m.w, bias, buffer.data() + gap, ldy};
    ops.linear(c, x.data(), n, m.w.cols, &job, 1);
    for (std::int64_t i = 0; i < n * ldy + gap; ++i) {
        const std::int64_t column = (i + ldy - gap) % ldy;
        const float v = buffer[static_cast<std::size_t>(i)];
        if (i >= gap && column < m.w.rows)
            y.push_back(v);
        else
            EXPECT_EQ(v, poison) << "written outside y at " << i;
    }
    return y;
}

std::vector<float> row_of(const std::vector<float>& x, std::int64_t row, std::int64_t cols) {
    return {x.begin() + row * cols, x.begin() + (row + 1) * cols};
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Compares y with sums in double. Float types: cols roundings of the running sum. Quantized types: at most two a block
/// of 32 (q2_k: four) and the scale's own against the rounded activations; against x itself half an int8 step of every
/// activation more.
void expect_close(
    const file_matrix& m, const std::vector<float>& x, std::int64_t n, const float* bias, const std::vector<float>& y) {
    const std::vector<float> w = m.values();
    const bool quantized = info(m.type).quantized;
    const rounded_activations r =
        quantized ? round_activations(x) : rounded_activations{x, std::vector<float>(x.size())};
    const double a_block = m.type == dtype::q2_k ? 4 : 2;
    const double roundings =
        quantized ? a_block * static_cast<double>(m.cols) / 32 + 6 : static_cast<double>(m.cols) + 2;
    for (std::int64_t t = 0; t < n; ++t)
        for (std::int64_t row = 0; row < m.rows; ++row) {
            double exact = bias ? bias[row] : 0, rounded = exact, mass = std::fabs(exact), step = 0;
            for (std::int64_t k = 0; k < m.cols; ++k) {
                const auto i = static_cast<std::size_t>(t * m.cols + k);
                const double wk = w[static_cast<std::size_t>(row * m.cols + k)];
                exact += wk * x[i];
                rounded += wk * r.values[i];
                mass += m.magnitude() * std::fabs(r.values[i]);
                step += std::fabs(wk) * r.half_step[i];
            }
            const double tight = roundings * epsilon / 2 * mass;
            const double got = y[static_cast<std::size_t>(t * m.rows + row)];
            ASSERT_NEAR(got, rounded, tight) << info(m.type).name << " token " << t << " row " << row;
            ASSERT_NEAR(got, exact, 1.001 * step + tight) << info(m.type).name << " token " << t << " row " << row;
        }
}

struct shape {
    std::int64_t rows, cols, n;
};

std::int64_t whole_blocks(dtype type, std::int64_t cols) {
    const std::int64_t block = info(type).block_values;
    return (cols + block - 1) / block * block;
}

TEST(Linear, EveryTypeAgreesWithDoubleArithmetic) {
    std::mt19937 random(1);
    pool threads(2);
    const shape shapes[] = {{1, 32, 1}, {7, 96, 3}, {8, 64, 2}, {9, 32, 17}, {16, 160, 4}, {17, 288, 5}, {33, 512, 9},
        {40, 32, 8}, {100, 96, 13}};
    int checked = 0;
    for (const isa& i : available())
        for (const dtype type : all_types)
            for (const shape& s : shapes) {
                const std::int64_t cols = whole_blocks(type, s.cols);
                const file_matrix m = random_matrix(type, s.rows, cols, random);
                const std::vector<float> x = random_activations(s.n, cols, random);
                const std::vector<float> bias = random_activations(1, s.rows, random);
                const packed_matrix packed(*i.ops, threads, m);
                SCOPED_TRACE(i.name);
                expect_close(m, x, s.n, nullptr, run(*i.ops, threads, packed, x, s.n));
                expect_close(m, x, s.n, bias.data(), run(*i.ops, threads, packed, x, s.n, bias.data()));
                ++checked;
            }
    EXPECT_EQ(checked, static_cast<int>(available().size() * std::size(all_types) * std::size(shapes)));
}

TEST(Linear, FloatTypesTakeAnyNumberOfColumns) {
    std::mt19937 random(2);
    pool threads(1);
    for (const isa& i : available())
        for (const dtype type : {dtype::f32, dtype::f16, dtype::bf16})
            for (std::int64_t cols = 1; cols <= 35; cols += 2) {
                const file_matrix m = random_matrix(type, 19, cols, random);
                const std::vector<float> x = random_activations(4, cols, random);
                const packed_matrix packed(*i.ops, threads, m);
                expect_close(m, x, 4, nullptr, run(*i.ops, threads, packed, x, 4));
            }
}

TEST(Linear, ARowKeepsItsBitsInEveryBatchAndOnEveryNumberOfThreads) {
    std::mt19937 random(3);
    pool one(1), two(2), three(3);
    for (const isa& i : available())
        for (const dtype type : all_types) {
            const std::int64_t cols = whole_blocks(type, 288), most = 41;
            const file_matrix m = random_matrix(type, 77, cols, random);
            const std::vector<float> x = random_activations(most, cols, random);
            const packed_matrix packed(*i.ops, one, m);
            std::vector<std::vector<float>> alone;
            for (std::int64_t t = 0; t < most; ++t) alone.push_back(run(*i.ops, one, packed, row_of(x, t, cols), 1));
            for (const std::int64_t n : {2, 3, 4, 7, 8, 16, 17, 41}) {
                std::vector<float> expected;
                for (std::int64_t t = 0; t < n; ++t)
                    expected.insert(expected.end(), alone[static_cast<std::size_t>(t)].begin(),
                        alone[static_cast<std::size_t>(t)].end());
                for (pool* threads : {&one, &two, &three})
                    EXPECT_TRUE(same_bits(run(*i.ops, *threads, packed, x, n), expected))
                        << i.name << " " << info(type).name << " n " << n << " threads " << threads->size();
            }
        }
}

TEST(Linear, JobsTogetherEqualJobsAlone) {
    std::mt19937 random(4);
    pool threads(2);
    const dtype types[] = {dtype::q4_1, dtype::q8_0, dtype::f16, dtype::q6_k};
    const std::int64_t rows[] = {64, 9, 24, 200}, cols = 512, n = 6;
    const std::vector<float> x = random_activations(n, cols, random);
    for (const isa& i : available()) {
        std::vector<packed_matrix> packed;
        std::vector<std::vector<float>> y;
        std::vector<linear_job> jobs;
        packed.reserve(4), y.reserve(4);
        for (int j = 0; j < 4; ++j) {
            packed.emplace_back(*i.ops, threads, random_matrix(types[j], rows[j], cols, random));
            y.emplace_back(static_cast<std::size_t>(n * rows[j]), poison);
            jobs.push_back({&packed.back().w, nullptr, y.back().data(), rows[j]});
        }
        const std::size_t size = i.ops->scratch_bytes(n, cols);
        aligned_bytes scratch(size);
        context c{threads, {scratch.data(), size}};
        i.ops->linear(c, x.data(), n, cols, jobs.data(), 4);
        for (std::size_t j = 0; j < 4; ++j)
            EXPECT_TRUE(same_bits(y[j], run(*i.ops, threads, packed[j], x, n))) << i.name << " job " << j;
    }
}

TEST(Linear, TheLargestIntegerSumsDoNotSaturate) {
    pool threads(1);
    const std::int64_t cols = 512, n = 5;
    for (const isa& i : available())
        for (const dtype type : all_types) {
            if (!info(type).quantized) continue;
            for (const std::uint8_t fill : {0x00, 0x80, 0x7f, 0xff, 0x88})
                for (const float sign : {1.0f, -1.0f}) {
                    const file_matrix m = filled_matrix(type, 20, cols, fill);
                    const std::vector<float> x(static_cast<std::size_t>(n * cols), 3.0f * sign);
                    const packed_matrix packed(*i.ops, threads, m);
                    expect_close(m, x, n, nullptr, run(*i.ops, threads, packed, x, n));
                }
        }
}

TEST(Linear, NothingHidesANonFiniteActivation) {
    std::mt19937 random(5);
    pool threads(1);
    const std::int64_t cols = 512, n = 6, bad = 3;
    for (const isa& i : available())
        for (const dtype type : all_types)
            for (const float value : {std::nanf(""), -std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
                const packed_matrix packed(*i.ops, threads, random_matrix(type, 24, cols, random));
                std::vector<float> x = random_activations(n, cols, random);
                const std::vector<float> clean = run(*i.ops, threads, packed, x, n);
                x[static_cast<std::size_t>(bad * cols + 300)] = value;
                const std::vector<float> y = run(*i.ops, threads, packed, x, n);
                for (std::int64_t t = 0; t < n; ++t)
                    for (std::int64_t row = 0; row < 24; ++row) {
                        const auto at = static_cast<std::size_t>(t * 24 + row);
                        if (t == bad)
                            EXPECT_FALSE(std::isfinite(y[at])) << i.name << " " << info(type).name;
                        else
                            EXPECT_EQ(y[at], clean[at]) << i.name << " " << info(type).name;
                    }
            }
}

TEST(Linear, ZeroAndTinyActivationsGiveZero) {
    std::mt19937 random(6);
    pool threads(1);
    for (const isa& i : available())
        for (const dtype type : all_types)
            for (const float value : {0.0f, -0.0f, 1e-38f, 1e-45f}) {
                const packed_matrix packed(*i.ops, threads, random_matrix(type, 8, 256, random));
                const std::vector<float> x(256, value);
                for (const float v : run(*i.ops, threads, packed, x, 1)) EXPECT_NEAR(v, 0.0f, 1e-30f);
            }
}

}  // namespace
}  // namespace troupe::kernels::linear_test
