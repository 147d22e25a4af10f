// Attention and KV writes of every table against ref: shapes, windows, caps, KV types, borders of pieces, mixed
// batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel_support.hpp"
#include "kernels/ops.hpp"

namespace troupe::kernels {
namespace {

using testing::bytes;
using testing::floats;
using testing::half_ulp;
using testing::machine;
using testing::paged_kv;

constexpr std::size_t layer_offset = 192;

struct span_of_rows {
    int pos, n_rows;
};

/// A batch of sequences: positions 0..pos-1 are stored first, then the rows of the step; `run` gives the step's output.
struct scenario {
    attention_params p;
    std::vector<span_of_rows> spans;
    std::mt19937 random{11};
    floats q, k, v;
    std::vector<floats> old_k, old_v;

    static std::size_t rows_of(const std::vector<span_of_rows>& s) {
        std::size_t n = 0;
        for (const span_of_rows& r : s) n += static_cast<std::size_t>(r.n_rows);
        return n;
    }
    std::size_t k_width() const { return static_cast<std::size_t>(p.kv.n_kv_heads * p.kv.own_dim()); }
    std::size_t v_width() const { return static_cast<std::size_t>(p.kv.n_kv_heads * p.kv.value_dim()); }

    scenario(const attention_params& params, std::vector<span_of_rows> rows)
        : p(params), spans(std::move(rows)), q(rows_of(spans) * static_cast<std::size_t>(p.n_heads * p.kv.head_dim), 1),
          k(rows_of(spans) * k_width(), 2), v(rows_of(spans) * v_width(), 3) {
        p.layer_offset = layer_offset;
        q.fill(random), k.fill(random), v.fill(random);
        for (const span_of_rows& s : spans) {
            old_k.emplace_back(static_cast<std::size_t>(s.pos) * k_width()).fill(random);
            old_v.emplace_back(static_cast<std::size_t>(s.pos) * v_width()).fill(random);
        }
    }

    floats run(const ops& table, int threads, std::vector<paged_kv>* keep = nullptr) {
        const int n = static_cast<int>(rows_of(spans));
        int most = n;
        for (const span_of_rows& s : spans) most = std::max(most, s.pos);
        machine m(table, threads, most, 64, p.n_heads, p.kv.head_dim);
        std::vector<paged_kv> memory;
        std::vector<attention_seq> seqs;
        int row = 0;
        for (std::size_t i = 0; i < spans.size(); ++i) {
            const auto [pos, n_rows] = spans[i];
            memory.emplace_back(p.kv, pos + n_rows, layer_offset, random);
            const attention_seq before{0, pos, 0, memory.back().blocks()};
            if (pos > 0) table.kv_store(m.ctx(), p.kv, layer_offset, &before, 1, old_k[i].data(), old_v[i].data());
            seqs.push_back({row, n_rows, pos, memory.back().blocks()});
            row += n_rows;
        }
        table.kv_store(m.ctx(), p.kv, layer_offset, seqs.data(), static_cast<int>(seqs.size()), k.data(), v.data());
        for (std::size_t i = 0; i < spans.size() && p.window > 0; ++i)  // blocks behind the window are gone
            for (int b = 0; (b + 1) * kv_block_tokens <= spans[i].pos - p.window + 1; ++b)
                memory[i].mutable_blocks()[b] = nullptr;
        floats out(rows_of(spans) * static_cast<std::size_t>(p.n_heads * p.kv.value_dim()), 1);
        table.attention(m.ctx(), p, seqs.data(), static_cast<int>(seqs.size()), q.data(), out.data());
        EXPECT_TRUE(out.intact());
        if (keep) *keep = std::move(memory);
        return out;
    }

    /// |difference| from ref. A score is off by head_dim roundings of products up to 4 each (values are below 2), times
    /// the scale; the cap by 10 more roundings of its size; a weight by the factor e^(score error), an exp (3) and the
    /// two factors of its merges; the sum over keys in order adds its own roundings, at most 128 a piece. Both
    /// numerator and denominator carry these, and values are below 2.
    double tolerance() const {
        int pieces = 1;
        for (const span_of_rows& s : spans) pieces = std::max(pieces, (s.pos + s.n_rows) / attention_piece + 1);
        const double score = (p.kv.head_dim * 4.0 * p.kv.head_dim * p.scale + 10 * p.softcap) * half_ulp;
        return 2 * 2 * (score + (3 + attention_piece + 6 * pieces) * half_ulp);
    }

    void expect_like_ref(const ops& table, int threads) {
        const floats got = run(table, threads), expected = run(*available_tables()[0], 1);
        const double bound = tolerance();
        double worst = 0;
        for (std::size_t i = 0; i < got.size(); ++i) {
            ASSERT_FALSE(std::isnan(got[i]));
            worst = std::max(worst, static_cast<double>(std::abs(got[i] - expected[i])));
        }
        EXPECT_LE(worst, bound);
    }
};

attention_params params(
    int n_heads, int n_kv_heads, int head_dim, dtype type = dtype::f16, int window = 0, float softcap = 0) {
    attention_params p;
    p.kv = {type, n_kv_heads, head_dim};
    p.n_heads = n_heads;
    p.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
    p.window = window;
    p.softcap = softcap;
    return p;
}

/// All heads share one key of `latent` + `own` values, whose first `latent` are the value too.
attention_params latent_params(int n_heads, int latent, int own, dtype type = dtype::f16) {
    attention_params p = params(n_heads, 1, latent + own, type);
    p.kv.latent = latent;
    return p;
}

class attention : public ::testing::TestWithParam<const ops*> {
 protected:
    const ops& table = *GetParam();
};

TEST_P(attention, group_sizes) {
    for (const int group : {1, 2, 3, 4, 5, 8})
        for (const int threads : {1, 3}) {
            SCOPED_TRACE(group);
            scenario(params(2 * group, 2, 64), {{0, 5}, {200, 1}, {37, 9}}).expect_like_ref(table, threads);
        }
}

TEST_P(attention, head_dims) {
    for (const int dim : {4, 16, 40, 64, 72, 80, 96, 128, 256, 512})
        for (const dtype type : {dtype::f16, dtype::f32}) {
            SCOPED_TRACE(dim);
            scenario(params(4, 2, dim, type), {{0, 3}, {130, 2}, {20, 20}}).expect_like_ref(table, 2);
        }
}

TEST_P(attention, kv_types) {
    for (const dtype type : {dtype::f32, dtype::f16, dtype::bf16, dtype::q8_0})
        for (const int rows : {1, 30}) {
            SCOPED_TRACE(info(type).name);
            scenario(params(6, 2, 64, type), {{140, rows}, {3, 1}}).expect_like_ref(table, 2);
        }
}

TEST_P(attention, borders_of_pieces_and_blocks) {
    for (const int pos : {0, 1, 15, 16, 17, 126, 127, 128, 129, 255, 256, 383, 384})
        for (const int rows : {1, 2, 18}) {
            SCOPED_TRACE(pos);
            scenario(params(3, 1, 64), {{pos, rows}}).expect_like_ref(table, 2);
        }
}

TEST_P(attention, windows) {
    for (const int window : {1, 2, 15, 16, 17, 100, 128, 129, 300})
        for (const dtype type : {dtype::f16, dtype::q8_0}) {
            SCOPED_TRACE(window);
            scenario(params(4, 1, 64, type, window), {{0, 40}, {127, 1}, {128, 3}, {400, 1}, {250, 30}})
                .expect_like_ref(table, 2);
        }
}

TEST_P(attention, softcap_and_scale) {
    attention_params p = params(4, 2, 128, dtype::f16, 0, 6.0f);
    p.scale = 0.3f;
    scenario(p, {{140, 1}, {0, 20}}).expect_like_ref(table, 2);
}

TEST_P(attention, long_contexts_are_cut_in_waves) {
    scenario(params(3, 1, 32), {{4700, 1}}).expect_like_ref(table, 3);
    scenario(params(2, 1, 32), {{4700, 4}, {10, 1}}).expect_like_ref(table, 3);
}

TEST_P(attention, latents_of_all_types_and_shapes) {
    struct {
        int n_heads, latent, own;
    } const shapes[] = {{1, 32, 32}, {4, 192, 32}, {3, 64, 64}, {6, 96, 0}, {20, 32, 96}};
    for (const auto& shape : shapes)
        for (const dtype type : {dtype::f32, dtype::f16, dtype::bf16, dtype::q8_0}) {
            SCOPED_TRACE(std::to_string(shape.latent) + " " + std::string(info(type).name));
            const attention_params p = latent_params(shape.n_heads, shape.latent, shape.own, type);
            scenario(p, {{0, 3}, {130, 1}, {20, 10}}).expect_like_ref(table, 2);
        }
    scenario(latent_params(16, 512, 64), {{0, 2}, {130, 1}, {5, 3}}).expect_like_ref(table, 2);  // DeepSeek-V2
    for (const int odd : {4, 20, 41}) scenario(latent_params(5, odd, 7), {{0, 20}, {140, 1}}).expect_like_ref(table, 2);
}

TEST_P(attention, latents_at_borders_of_pieces_and_blocks) {
    for (const int pos : {0, 1, 15, 16, 127, 128, 129, 255})
        for (const int rows : {1, 2, 18}) {
            SCOPED_TRACE(pos);
            scenario(latent_params(rows == 18 ? 3 : 16, 32, 16), {{pos, rows}}).expect_like_ref(table, 3);
        }
    attention_params p = latent_params(6, 64, 32);
    p.window = 100, p.softcap = 5.0f;
    scenario(p, {{0, 40}, {400, 1}, {250, 30}}).expect_like_ref(table, 2);
}

TEST_P(attention, long_latent_contexts_are_cut_in_waves) {
    scenario(latent_params(10, 16, 4), {{4700, 1}, {10, 1}}).expect_like_ref(table, 3);
}

TEST(kv_geometry, a_latent_is_stored_once) {
    EXPECT_EQ(kv_layer_block_bytes({dtype::f16, 1, 576, 512}) * 27 / kv_block_tokens, 31104u) << "DeepSeek-V2-Lite";
    EXPECT_EQ(kv_layer_block_bytes({dtype::q8_0, 1, 576, 512}), 16u * 576 / 32 * 34);
    EXPECT_EQ(kv_layer_block_bytes({dtype::f16, 2, 64}), 2u * 2 * 16 * 64 * 2);
}

TEST_P(attention, stored_bits_are_those_of_ref) {
    for (const dtype type : {dtype::f32, dtype::f16, dtype::bf16, dtype::q8_0})
        for (const bool latent : {false, true}) {
            scenario s(latent ? latent_params(2, 160, 32, type) : params(2, 2, 96, type), {{20, 13}, {0, 33}, {7, 1}});
            s.k[5] = 1e-30f, s.k[6] = -0.0f, s.k[200] = 70000.0f, s.v[7] = std::numeric_limits<float>::quiet_NaN();
            std::vector<paged_kv> got, expected;
            s.random.seed(3);
            s.run(table, 2, &got);
            s.random.seed(3);  // the same order of blocks
            s.run(*available_tables()[0], 1, &expected);
            for (std::size_t i = 0; i < got.size(); ++i)
                EXPECT_EQ(std::memcmp(got[i].memory().data(), expected[i].memory().data(), got[i].memory().size()), 0)
                    << info(type).name;
        }
}

/// A value that is not finite must not get lost: the output of the rows that see it is not finite either.
TEST_P(attention, non_finite_keys_and_values_show) {
    for (const dtype type : {dtype::f32, dtype::f16, dtype::bf16, dtype::q8_0})
        for (const bool in_key : {true, false}) {
            for (const attention_params& p : {params(2, 1, 64, type), latent_params(2, 64, 64, type)}) {
                scenario s(p, {{0, 20}});
                (in_key ? s.k : s.v)[10 * 64 + 3] = std::numeric_limits<float>::quiet_NaN();
                const floats out = s.run(table, 1);
                for (std::size_t row = 0; row < 20; ++row)
                    EXPECT_EQ(table.all_finite(out.data() + row * 128, 128), row < 10) << info(type).name << " " << row;
            }
        }
}

INSTANTIATE_TEST_SUITE_P(tables, attention, ::testing::ValuesIn(available_tables()), testing::table_name);

}  // namespace
}  // namespace troupe::kernels
