// Attention's bits do not depend on the neighbours, on how the prompt was cut, on the threads or on where blocks lie.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernel_support.hpp"
#include "kernels/ops.hpp"

namespace troupe::kernels {
namespace {

using testing::floats;
using testing::machine;
using testing::paged_kv;

struct shape {
    const char* name;
    int n_heads, n_kv_heads, head_dim;
    dtype type;
    int window;
    float softcap;
    int latent = 0;
};

void PrintTo(const shape& s, std::ostream* out) { *out << s.name; }

/// A sequence of n tokens with fixed q, k and v, fed to a table in steps.
class story {
 public:
    story(const shape& s, int n, unsigned seed) : n_(n), random_(seed) {
        p_.kv = {s.type, s.n_kv_heads, s.head_dim, s.latent};
        p_.n_heads = s.n_heads;
        p_.scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim));
        p_.window = s.window;
        p_.softcap = s.softcap;
        p_.layer_offset = 64;
        q_ = std::make_unique<floats>(static_cast<std::size_t>(n * q_width()));
        k_ = std::make_unique<floats>(static_cast<std::size_t>(n * k_width()));
        v_ = std::make_unique<floats>(static_cast<std::size_t>(n * v_width()));
        q_->fill(random_), k_->fill(random_), v_->fill(random_);
    }
    int n() const { return n_; }
    const attention_params& params() const { return p_; }
    int q_width() const { return p_.n_heads * p_.kv.head_dim; }
    int k_width() const { return p_.kv.n_kv_heads * p_.kv.own_dim(); }
    int v_width() const { return p_.kv.n_kv_heads * p_.kv.value_dim(); }
    int out_width() const { return p_.n_heads * p_.kv.value_dim(); }
    const float* q(int row) const { return q_->data() + row * q_width(); }
    const float* k(int row) const { return k_->data() + row * k_width(); }
    const float* v(int row) const { return v_->data() + row * v_width(); }
    std::mt19937& random() { return random_; }

    /// Output of all rows, in steps of `chunk` rows.
    floats run(const ops& table, int threads, int chunk) {
        paged_kv kv(p_.kv, n_, p_.layer_offset, random_);
        machine m(table, threads, chunk, 64, p_.n_heads, p_.kv.head_dim);
        floats out(static_cast<std::size_t>(n_ * out_width()));
        for (int pos = 0; pos < n_; pos += chunk) {
            const attention_seq seq{0, std::min(chunk, n_ - pos), pos, kv.blocks()};
            table.kv_store(m.ctx(), p_.kv, p_.layer_offset, &seq, 1, k(pos), v(pos));
            table.attention(m.ctx(), p_, &seq, 1, q(pos), out.data() + pos * out_width());
        }
        return out;
    }

 private:
    int n_;
    std::mt19937 random_;
    attention_params p_;
    std::unique_ptr<floats> q_, k_, v_;
};

/// Both stories in one batch: the first a row at a time while the second prefills in chunks of `chunk` beside it.
std::pair<floats, floats> run_together(story& a, story& b, const ops& table, int threads, int chunk) {
    const attention_params& p = a.params();
    paged_kv kv_a(p.kv, a.n(), p.layer_offset, a.random()), kv_b(p.kv, b.n(), p.layer_offset, b.random());
    machine m(table, threads, chunk + 1, 64, p.n_heads, p.kv.head_dim);
    const auto q_width = static_cast<std::size_t>(a.q_width()), width = static_cast<std::size_t>(a.out_width()),
               k_width = static_cast<std::size_t>(a.k_width()), v_width = static_cast<std::size_t>(a.v_width());
    std::pair<floats, floats> out{
        floats(static_cast<std::size_t>(a.n()) * width), floats(static_cast<std::size_t>(b.n()) * width)};
    const auto rows = static_cast<std::size_t>(chunk) + 1;
    floats q(rows * q_width), k(rows * k_width), v(rows * v_width), y(rows * width);
    for (int step = 0, pos = 0; step < a.n() || pos < b.n(); ++step) {
        std::vector<attention_seq> seqs;
        int row = 0;
        const auto take = [&](story& s, int from, int n, std::byte* const* blocks) {
            const auto put = [&](const float* x, std::size_t w, floats& to) {
                std::copy_n(x, static_cast<std::size_t>(n) * w, to.data() + static_cast<std::size_t>(row) * w);
            };
            put(s.q(from), q_width, q), put(s.k(from), k_width, k), put(s.v(from), v_width, v);
            seqs.push_back({row, n, from, blocks});
            row += n;
        };
        const int n_b = std::min(chunk, b.n() - pos), n_a = step < a.n() ? 1 : 0;
        if (n_a > 0) take(a, step, 1, kv_a.blocks());
        if (n_b > 0) take(b, pos, n_b, kv_b.blocks());
        table.kv_store(m.ctx(), p.kv, p.layer_offset, seqs.data(), static_cast<int>(seqs.size()), k.data(), v.data());
        table.attention(m.ctx(), p, seqs.data(), static_cast<int>(seqs.size()), q.data(), y.data());
        if (n_a > 0) std::copy_n(y.data(), width, out.first.data() + static_cast<std::size_t>(step) * width);
        if (n_b > 0)
            std::copy_n(y.data() + static_cast<std::size_t>(n_a) * width, static_cast<std::size_t>(n_b) * width,
                out.second.data() + static_cast<std::size_t>(pos) * width);
        pos += std::max(n_b, 0);
    }
    return out;
}

using parameter = std::tuple<const ops*, shape>;
class invariance : public ::testing::TestWithParam<parameter> {
 protected:
    const ops& table = *std::get<0>(GetParam());
    const shape& s = std::get<1>(GetParam());
};

TEST_P(invariance, chunks_and_threads) {
    const int n = table.name == "ref" ? 70 : 290;  // ref has no pieces to cut, and takes its time
    story whole(s, n, 5);
    const floats expected = whole.run(table, 1, 1);
    for (const int chunk : {n, 1, 7, 64})
        for (const int threads : {1, 2, 3}) {
            if (chunk == 1 && threads == 2) continue;
            EXPECT_TRUE(whole.run(table, threads, chunk).same_bits(expected)) << chunk << " " << threads;
        }
}

TEST_P(invariance, neighbours) {
    const int n = table.name == "ref" ? 40 : 150;
    story a(s, n, 6), b(s, n + 120, 7);
    const floats alone_a = a.run(table, 1, a.n()), alone_b = b.run(table, 1, b.n());
    for (const int chunk : {7, 64}) {
        const auto [with_b, with_a] = run_together(a, b, table, 2, chunk);
        EXPECT_TRUE(with_b.same_bits(alone_a)) << chunk;
        EXPECT_TRUE(with_a.same_bits(alone_b)) << chunk;
    }
}

INSTANTIATE_TEST_SUITE_P(tables, invariance,
    ::testing::Combine(::testing::ValuesIn(available_tables()),
        ::testing::Values(shape{"plain", 3, 1, 64, dtype::f16, 0, 0},
            shape{"grouped_window", 8, 2, 32, dtype::bf16, 50, 0}, shape{"cap_odd_dim", 2, 2, 40, dtype::f32, 140, 20},
            shape{"q8", 4, 1, 64, dtype::q8_0, 0, 0}, shape{"latent", 16, 1, 48, dtype::f16, 0, 0, 32},
            shape{"latent_q8", 5, 1, 96, dtype::q8_0, 0, 0, 64})),
    [](const auto& test) { return std::string(std::get<0>(test.param)->name) + "_" + std::get<1>(test.param).name; });

/// A long context is cut along its pieces when threads would stand idle, and not on one thread: the bits are the same.
TEST(long_context, cut_or_not) {
    for (const ops* table : available_tables())
        for (const int latent : {0, 16}) {
            const shape s{"long", latent > 0 ? 16 : 4, 1, 16, dtype::f16, 0, 0, latent};
            story tale(s, 4800, 9);
            const attention_params& p = tale.params();
            paged_kv kv(p.kv, tale.n(), p.layer_offset, tale.random());
            std::vector<floats> results;
            for (const int threads : {1, 2, 3}) {
                machine m(*table, threads, tale.n(), 64, p.n_heads, p.kv.head_dim);
                const attention_seq all{0, tale.n(), 0, kv.blocks()}, last{0, 1, tale.n() - 1, kv.blocks()};
                table->kv_store(m.ctx(), p.kv, p.layer_offset, &all, 1, tale.k(0), tale.v(0));
                results.emplace_back(static_cast<std::size_t>(tale.out_width()));
                table->attention(m.ctx(), p, &last, 1, tale.q(tale.n() - 1), results.back().data());
            }
            EXPECT_TRUE(results[1].same_bits(results[0]) && results[2].same_bits(results[0])) << table->name;
        }
}

}  // namespace
}  // namespace troupe::kernels
