// The AVX-512 kernels, emulated, give the bits of the AVX2 kernels: both are the same lanes in the same order.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernel_support.hpp"
#include "kernels/cpu/attention.hpp"
#include "kernels/cpu/isa.hpp"

namespace troupe::kernels {
namespace avx512_emulated {
extern const isa_kernels kernel_set;
}
namespace {

using testing::floats;
using testing::machine;
using testing::paged_kv;

const isa_kernels& wide = avx512_emulated::kernel_set;
const isa_kernels& narrow = avx2::kernel_set;

class emulated : public ::testing::Test {
 protected:
    std::mt19937 random{3};
    void SetUp() override { ASSERT_TRUE(table("avx2").ok()) << "this test needs a processor with AVX2"; }

    /// One output array from each set, lengths 1..35 and a long one.
    template <class Body> void expect_same(Body body) {
        for (std::int64_t n = 1; n <= 36; ++n) {
            const std::int64_t length = n == 36 ? 1000 : n;
            floats x(static_cast<std::size_t>(length), 1), u(x.size());
            x.fill(random, -20, 20), u.fill(random);
            if (length == 1000)
                x[1] = 0, x[2] = -0.0f, x[3] = INFINITY, x[4] = -INFINITY, x[5] = NAN, x[6] = 1e30f, x[7] = -1e30f;
            floats a(x.size(), 2), b(x.size(), 2);
            body(wide, x, u, a.data());
            body(narrow, x, u, b.data());
            ASSERT_TRUE(a.same_bits(b)) << length;
            ASSERT_TRUE(a.intact() && b.intact()) << length;
        }
    }
};

std::int64_t length_of(const floats& x) { return static_cast<std::int64_t>(x.size()); }

TEST_F(emulated, element_wise) {
    expect_same([](const isa_kernels& k, floats& x, floats&, float* y) { k.exp(x.data(), length_of(x), y); });
    expect_same([](const isa_kernels& k, floats& x, floats&, float* y) { k.tanh(x.data(), length_of(x), y); });
    expect_same([](const isa_kernels& k, floats& x, floats& u, float* y) {
        k.gated(gate::silu, x.data(), u.data(), length_of(x), y);
    });
    expect_same([](const isa_kernels& k, floats& x, floats& u, float* y) {
        k.gated(gate::gelu_tanh, x.data(), u.data(), length_of(x), y);
    });
    expect_same([](const isa_kernels& k, floats& x, floats& u, float* y) {
        k.scale_row(x.data(), 0.3f, u.data(), length_of(x), y);
    });
    expect_same([](const isa_kernels& k, floats& x, floats& u, float* y) {
        std::copy_n(x.data(), x.size(), y);
        k.add(y, u.data(), length_of(x));
        k.softcap(y, length_of(x), 5.0f);
    });
    expect_same([](const isa_kernels& k, floats& x, floats& u, float* y) {
        std::copy_n(u.data(), u.size(), y);
        k.add_scaled(y, x.data(), 0.7f, length_of(x));
    });
    expect_same([](const isa_kernels& k, floats&, floats& u, float* y) {
        std::fill_n(y, u.size(), static_cast<float>(k.sum_squares(u.data(), length_of(u))));
    });
}

TEST_F(emulated, rope) {
    for (const rope_pairs pairs : {rope_pairs::adjacent, rope_pairs::halves})
        for (const int half : {1, 7, 8, 9, 16, 20, 48}) {
            floats x(static_cast<std::size_t>(6 * half)), angles(static_cast<std::size_t>(2 * half));
            x.fill(random), angles.fill(random);
            floats y(x);
            wide.rope_row(x.data(), 3, 2 * half, half, pairs, angles.data());
            narrow.rope_row(y.data(), 3, 2 * half, half, pairs, angles.data());
            EXPECT_TRUE(x.same_bits(y) && x.intact());
        }
}

TEST_F(emulated, attention_and_kv) {
    struct {
        int rows, latent;
    } const cases[] = {{1, 0}, {3, 0}, {50, 0}, {1, 64}, {50, 64}};
    for (const dtype type : {dtype::f32, dtype::f16, dtype::bf16, dtype::q8_0})
        for (const auto [rows, latent] : cases) {
            attention_params p;
            p.kv = {type, 2, 96, latent};
            p.n_heads = 6;
            p.scale = 0.1f;
            p.softcap = rows == 3 ? 4.0f : 0.0f;
            p.window = rows == 50 ? 70 : 0;
            const int n = 150 + rows;
            floats k(static_cast<std::size_t>(n * 192)), v(k.size()), q(static_cast<std::size_t>(rows * 576));
            k.fill(random), v.fill(random), q.fill(random);
            machine m(**table("avx2"), 2, n, 64, p.n_heads, p.kv.head_dim);
            std::vector<floats> results;
            std::vector<paged_kv> memory;
            for (const isa_kernels* isa : {&wide, &narrow}) {
                std::mt19937 order(1);
                memory.emplace_back(p.kv, n, 0, order);
                const attention_seq all{0, n, 0, memory.back().blocks()}, last{0, rows, 150, memory.back().blocks()};
                cpu::kv_store(*isa, m.ctx(), p.kv, 0, &all, 1, k.data(), v.data());
                results.emplace_back(static_cast<std::size_t>(rows * p.n_heads * p.kv.value_dim()));
                cpu::attention(*isa, m.ctx(), p, &last, 1, q.data(), results.back().data());
            }
            EXPECT_EQ(std::memcmp(memory[0].memory().data(), memory[1].memory().data(), memory[0].memory().size()), 0);
            EXPECT_TRUE(results[0].same_bits(results[1])) << info(type).name << " " << rows << " " << latent;
            EXPECT_TRUE(narrow.all_finite(results[0].data(), length_of(results[0])));
        }
}

TEST_F(emulated, finite) {
    floats x(40);
    x.fill(random);
    EXPECT_TRUE(wide.all_finite(x.data(), 39));
    x[38] = INFINITY;
    EXPECT_FALSE(wide.all_finite(x.data(), 39));
    EXPECT_TRUE(wide.all_finite(x.data(), 38));
}

}  // namespace
}  // namespace troupe::kernels
