// Stacks of matrices (heads, experts), the router and the sum over experts: every table against ref and against plain
// loops written here, the bits against those of `linear`, and what is not chosen is not read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/ops.hpp"
#include "tests/kernels/kernel_support.hpp"
#include "tests/kernels/linear/linear_support.hpp"

namespace troupe::kernels {
namespace {

using linear_test::all_types;
using linear_test::file_matrix;
using linear_test::random_matrix;
using testing::bytes;
using testing::floats;
using testing::half_ulp;

/// `count` random matrices packed for a table.
struct packed_stack {
    std::vector<file_matrix> files;
    bytes memory;
    weight_stack w;

    packed_stack(
        const ops& table, dtype type, std::int64_t count, std::int64_t rows, std::int64_t cols, std::mt19937& random)
        : memory(static_cast<std::size_t>(count) * table.packed_bytes(type, rows, cols)), w{type, count, rows, cols,
                                                                                              memory.data()} {
        pool one(1);
        for (std::int64_t m = 0; m < count; ++m) {
            files.push_back(random_matrix(type, rows, cols, random));
            table.pack(one, type, rows, cols, files.back().bytes.data(), at(table, m));
        }
    }
    std::byte* at(const ops& table, std::int64_t m) {
        return memory.data() + static_cast<std::size_t>(m) * table.packed_bytes(w.type, w.rows, w.cols);
    }
};

/// Threads and scratch of exactly the size a call may need.
struct bench {
    pool threads;
    bytes scratch;
    context c;
    bench(const ops& table, int n_threads, std::int64_t rows, std::int64_t cols, std::int64_t values,
        std::int64_t matrices)
        : threads(n_threads), scratch(table.scratch_bytes({.max_rows = rows,
                                  .max_cols = cols,
                                  .n_threads = n_threads,
                                  .stack_values = values,
                                  .stack_count = matrices})),
          c{threads, scratch.span()} {}
};

/// Memory of a routing, filled by route().
struct chosen {
    std::vector<float> weight;
    std::vector<std::int32_t> slot, row, first;
    routing r;
    chosen(const ops& table, context& c, const router_params& p, const floats& logits, std::int64_t n)
        : weight(static_cast<std::size_t>(n * p.n_used), -1.0f), slot(weight.size(), -1), row(weight.size(), -1),
          first(static_cast<std::size_t>(p.n_experts) + 1, -1), r{p.n_experts, p.n_used, weight.data(), slot.data(),
                                                                    row.data(), first.data()} {
        table.route(c, p, logits.data(), n, r);
    }
    int expert(std::int64_t i) const {  // of an entry [row][rank]
        return static_cast<int>(
                   std::upper_bound(first.begin(), first.end(), slot[static_cast<std::size_t>(i)]) - first.begin()) -
               1;
    }
};

class stacks : public ::testing::TestWithParam<const ops*> {
 protected:
    const ops& table = *GetParam();
    std::mt19937 random{21};
    context& plain() { return plain_.c; }

 private:
    bench plain_{*GetParam(), 2, 1, 1, 1, 1};
};

TEST_P(stacks, route_takes_the_largest_and_breaks_ties_by_id) {
    const router_params p{5, 3, false, 1.5f};
    floats logits(10);
    const float values[] = {0, 2, 1, 2, -1, 3, 3, 3, 3, 3};
    std::copy(std::begin(values), std::end(values), logits.data());
    const chosen got(table, plain(), p, logits, 2);
    const int expected[] = {1, 3, 2, 0, 1, 2};
    for (int i = 0; i < 6; ++i) EXPECT_EQ(got.expert(i), expected[i]) << i;
    const double total = 1 + 2 * std::exp(2.0) + std::exp(1.0) + std::exp(-1.0);
    EXPECT_NEAR(got.weight[0], 1.5 * std::exp(2.0) / total, 1e-7);
    EXPECT_EQ(got.weight[0], got.weight[1]);
    EXPECT_NEAR(got.weight[2], 1.5 * std::exp(1.0) / total, 1e-7);
    EXPECT_NEAR(got.weight[3], 0.3, 1e-7);
    const chosen normal(table, plain(), {5, 3, true, 1.0f}, logits, 2);
    EXPECT_NEAR(normal.weight[0] + normal.weight[1] + normal.weight[2], 1, 1e-6);
    EXPECT_NEAR(normal.weight[3], 1.0 / 3, 1e-7);
    EXPECT_EQ(got.first, (std::vector<std::int32_t>{0, 1, 3, 5, 6, 6}));
}

TEST_P(stacks, routing_is_complete_and_consistent) {
    for (const auto& p : {router_params{64, 6}, router_params{1, 1}, router_params{7, 7}, router_params{1024, 3}})
        for (const std::int64_t n : {1, 2, 33}) {
            floats logits(static_cast<std::size_t>(n * p.n_experts));
            logits.fill(random);
            const chosen got(table, plain(), p, logits, n);
            EXPECT_EQ(got.first[0], 0);
            EXPECT_TRUE(std::is_sorted(got.first.begin(), got.first.end()));
            EXPECT_EQ(got.first.back(), n * p.n_used);
            for (std::int64_t i = 0; i < n * p.n_used; ++i) {
                const auto entry = static_cast<std::size_t>(i);
                EXPECT_EQ(got.row[static_cast<std::size_t>(got.slot[entry])], i / p.n_used);
                if (i % p.n_used == 0) continue;
                const float* z = logits.data() + i / p.n_used * p.n_experts;
                EXPECT_GE(z[got.expert(i - 1)], z[got.expert(i)]);
                EXPECT_GE(got.weight[entry - 1], got.weight[entry]);
            }
            for (int e = 0; e < p.n_experts; ++e)
                for (int s = got.first[static_cast<std::size_t>(e)] + 1; s < got.first[static_cast<std::size_t>(e) + 1];
                     ++s)
                    EXPECT_LT(got.row[static_cast<std::size_t>(s) - 1], got.row[static_cast<std::size_t>(s)]);
        }
}

TEST_P(stacks, logits_that_are_not_finite_stay_in_their_row) {
    constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
    for (const float bad : {nan, inf, -inf})
        for (const std::size_t at : {0, 3}) {
            floats logits(12);
            logits.fill(random);
            logits[4 + at] = bad;
            const chosen got(table, plain(), {4, 2}, logits, 3);
            EXPECT_EQ(got.first.back(), 6);
            if (bad != -inf) {
                EXPECT_FALSE(std::isfinite(got.weight[2]) && std::isfinite(got.weight[3]));
            }
            for (const std::size_t fine : {0, 1, 4, 5}) EXPECT_TRUE(std::isfinite(got.weight[fine]));
        }
}

/// One row of x by one matrix, through the table's `linear`.
void expect_linear_bits(const ops& table, context& c, packed_stack& s, std::int64_t m, const float* x, const float* y) {
    const weight one{s.w.type, s.w.rows, s.w.cols, s.at(table, m)};
    floats expected(static_cast<std::size_t>(s.w.rows));
    const linear_job job{&one, nullptr, expected.data(), s.w.rows};
    table.linear(c, x, 1, s.w.cols, &job, 1);
    ASSERT_EQ(std::memcmp(expected.data(), y, expected.size() * sizeof(float)), 0) << info(s.w.type).name << " " << m;
}

TEST_P(stacks, heads_have_the_bits_of_linear) {
    for (const dtype type : all_types)
        for (const std::int64_t n : {1, 2, 19}) {
            const std::int64_t heads = 3, rows = 21, cols = 256, ldx = cols + 8, ldy = rows + 5;
            packed_stack s(table, type, heads, rows, cols, random);
            floats x(static_cast<std::size_t>(n * heads * ldx), 1), y(static_cast<std::size_t>(n * heads * ldy), 1);
            x.fill(random);
            bench b(table, 3, 1, cols, n * heads * cols, heads);
            table.linear_heads(b.c, x.data(), ldx, n, s.w, y.data(), ldy);
            EXPECT_TRUE(y.intact());
            for (std::int64_t i = 0; i < n * heads; ++i) {
                expect_linear_bits(table, b.c, s, i % heads, x.data() + i * ldx, y.data() + i * ldy);
                for (std::int64_t gap = rows; gap < ldy; ++gap)
                    EXPECT_TRUE(std::isnan(y[static_cast<std::size_t>(i * ldy + gap)])) << "nothing between rows";
            }
        }
}

TEST_P(stacks, heads_of_any_float_width) {
    for (const std::int64_t cols : {1, 7, 40, 192})
        for (const std::int64_t rows : {1, 8, 33}) {
            packed_stack s(table, dtype::f16, 2, rows, cols, random);
            floats x(static_cast<std::size_t>(3 * 2 * cols)), y(static_cast<std::size_t>(3 * 2 * rows));
            x.fill(random);
            bench b(table, 2, 1, cols, 6 * cols, 2);
            table.linear_heads(b.c, x.data(), cols, 3, s.w, y.data(), rows);
            for (std::int64_t i = 0; i < 6; ++i)
                expect_linear_bits(table, b.c, s, i % 2, x.data() + i * cols, y.data() + i * rows);
        }
}

TEST_P(stacks, experts_have_the_bits_of_linear_and_only_they_are_read) {
    const router_params p{9, 3};
    for (const dtype type : all_types)
        for (const std::int64_t n : {1, 2, 40}) {
            const std::int64_t rows = 37, cols = 256;
            packed_stack gate(table, type, p.n_experts, rows, cols, random);
            packed_stack up(table, n == 2 ? dtype::f32 : type, p.n_experts, rows, cols, random);
            floats logits(static_cast<std::size_t>(n * p.n_experts)), x(static_cast<std::size_t>(n * cols));
            logits.fill(random), x.fill(random);
            bench b(table, 3, n, cols, n * p.n_used * cols, p.n_experts);
            const chosen c(table, b.c, p, logits, n);
            floats g(static_cast<std::size_t>(n * p.n_used * rows)), u(g.size());
            const expert_job jobs[] = {{&gate.w, g.data()}, {&up.w, u.data()}};
            for (int e = 0; e < p.n_experts; ++e)  // an expert nobody chose: NaN in every type that has one
                if (c.first[static_cast<std::size_t>(e)] == c.first[static_cast<std::size_t>(e) + 1])
                    std::memset(gate.at(table, e), 0xff, table.packed_bytes(type, rows, cols));
            table.linear_experts(b.c, x.data(), expert_input::rows, c.r, jobs, 2);
            EXPECT_TRUE(g.intact() && u.intact());
            for (std::int64_t i = 0; i < n * p.n_used; ++i) {
                const std::int64_t slot = c.slot[static_cast<std::size_t>(i)];
                const float* in = x.data() + i / p.n_used * cols;
                expect_linear_bits(table, b.c, gate, c.expert(i), in, g.data() + slot * rows);
                expect_linear_bits(table, b.c, up, c.expert(i), in, u.data() + slot * rows);
            }
        }
}

TEST_P(stacks, experts_of_slots_and_the_sum_by_rank) {
    const router_params p{6, 4, false, 1.5f};
    const std::int64_t n = 21, rows = 45, cols = 64;
    packed_stack down(table, dtype::q8_0, p.n_experts, rows, cols, random);
    floats logits(static_cast<std::size_t>(n * p.n_experts)), x(static_cast<std::size_t>(n * p.n_used * cols));
    logits.fill(random), x.fill(random);
    bench b(table, 2, n, cols, n * p.n_used * cols, p.n_experts);
    const chosen c(table, b.c, p, logits, n);
    floats parts(static_cast<std::size_t>(n * p.n_used * rows)), y(static_cast<std::size_t>(n * rows), 3);
    const expert_job job{&down.w, parts.data()};
    table.linear_experts(b.c, x.data(), expert_input::slots, c.r, &job, 1);
    table.combine(b.c, c.r, parts.data(), n, rows, y.data());
    EXPECT_TRUE(y.intact());
    for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t rank = 0; rank < p.n_used; ++rank) {
            const std::int64_t slot = c.slot[static_cast<std::size_t>(i * p.n_used + rank)];
            expect_linear_bits(
                table, b.c, down, c.expert(i * p.n_used + rank), x.data() + slot * cols, parts.data() + slot * rows);
        }
        for (std::int64_t j = 0; j < rows; ++j) {
            double sum = 0, magnitude = 0;
            for (std::int64_t rank = 0; rank < p.n_used; ++rank) {
                const auto entry = static_cast<std::size_t>(i * p.n_used + rank);
                const double term =
                    static_cast<double>(c.weight[entry]) * parts[static_cast<std::size_t>(c.slot[entry] * rows + j)];
                sum += term, magnitude += std::abs(term);
            }
            // One rounding a rank, each of a partial sum no larger than the sum of magnitudes.
            EXPECT_NEAR(y[static_cast<std::size_t>(i * rows + j)], sum, p.n_used * half_ulp * magnitude);
        }
    }
}

/// A row's result, alone on one thread, and among others on several.
TEST_P(stacks, neighbours_and_threads_do_not_show) {
    const router_params p{8, 3};
    const std::int64_t n = 70, rows = 40, cols = 256;
    packed_stack w(table, dtype::q4_k, p.n_experts, rows, cols, random);
    floats logits(static_cast<std::size_t>(n * p.n_experts)), x(static_cast<std::size_t>(n * cols));
    logits.fill(random), x.fill(random);
    const auto mix = [&](std::int64_t from, std::int64_t count, int threads) {
        bench b(table, threads, count, cols, count * p.n_used * cols, p.n_experts);
        floats z(static_cast<std::size_t>(count * p.n_experts));
        std::copy_n(logits.data() + from * p.n_experts, z.size(), z.data());
        const chosen c(table, b.c, p, z, count);
        floats parts(static_cast<std::size_t>(count * p.n_used * rows)), y(static_cast<std::size_t>(count * rows));
        const expert_job job{&w.w, parts.data()};
        table.linear_experts(b.c, x.data() + from * cols, expert_input::rows, c.r, &job, 1);
        table.combine(b.c, c.r, parts.data(), count, rows, y.data());
        return y;
    };
    const floats all = mix(0, n, 3);
    for (const std::int64_t row : {0, 1, 35, 69}) {
        const floats alone = mix(row, 1, 1);
        EXPECT_EQ(std::memcmp(alone.data(), all.data() + row * rows, static_cast<std::size_t>(rows) * 4), 0) << row;
    }
    EXPECT_TRUE(mix(0, n, 1).same_bits(all));
}

TEST_P(stacks, copies_rows) {
    floats x(40, 1), y(40, 2);
    x.fill(random);
    table.copy_rows(plain(), x.data(), 10, 4, 3, y.data(), 9);
    for (std::size_t i = 0; i < 4; ++i)
        for (std::size_t j = 0; j < 9; ++j)
            EXPECT_TRUE(j < 3 ? y[9 * i + j] == x[10 * i + j] : std::isnan(y[9 * i + j])) << i << " " << j;
}

INSTANTIATE_TEST_SUITE_P(tables, stacks, ::testing::ValuesIn(available_tables()), testing::table_name);

}  // namespace
}  // namespace troupe::kernels
