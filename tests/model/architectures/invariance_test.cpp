// A sequence's logits are the same bits whatever is in the batch, however its prompt is cut, wherever its blocks lie,
// and however many threads compute (design section 8). On every table, for every family; the windows of 16 lie
// within the 48 tokens.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/paged_runner.hpp"
#include "tests/support/test_models.hpp"

namespace troupe::testing {
namespace {

using model::token_id;

std::vector<token_id> some_tokens(std::size_t n, std::uint32_t seed, std::int32_t n_vocab) {
    std::mt19937 random(seed);
    std::vector<token_id> tokens(n);
    for (token_id& t : tokens) t = static_cast<token_id>(random() % static_cast<std::uint32_t>(n_vocab));
    return tokens;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// The sequence of interest in prefill chunks while seven others prefill and decode in the same steps.
std::vector<float> with_neighbours(model::model& m, std::span<const token_id> tokens, std::size_t chunk) {
    paged_runner runner(m, 7, true);
    paged_sequence mine;
    std::vector<paged_sequence> others(7);
    std::vector<float> logits;
    const auto noise = some_tokens(2048, 99, m.info().n_vocab);
    const auto width = static_cast<std::size_t>(m.info().n_vocab);
    for (std::size_t at = 0, turn = 0; at < tokens.size(); at += chunk, ++turn) {
        std::vector<paged_runner::feed> feeds;
        std::size_t rows_before = 0;
        for (std::size_t i = 0; i < others.size(); ++i) {
            const std::size_t n = turn == 0 ? 1 + i % 3 : 1;
            if (i == 3) feeds.push_back({&mine, tokens.subspan(at, std::min(chunk, tokens.size() - at)), want::all});
            feeds.push_back({&others[i], std::span(noise).subspan(turn * 7 + i * 11, n), want::last});
            rows_before += i < 3 ? 1 : 0;
        }
        const auto rows = runner.step(feeds);
        const std::size_t n_mine = std::min(chunk, tokens.size() - at);
        logits.insert(logits.end(), rows.begin() + static_cast<std::ptrdiff_t>(rows_before * width),
            rows.begin() + static_cast<std::ptrdiff_t>((rows_before + n_mine) * width));
    }
    return logits;
}

void check_invariance(
    const std::string& path, const kernels::ops& ops, kernels::dtype kv, std::size_t n_tokens, std::int32_t max_rows) {
    SCOPED_TRACE(path + " on " + std::string(ops.name) + ", KV " + std::string(kernels::info(kv).name));
    const loaded one = load_model(path, ops, kv, max_rows, 1);
    ASSERT_TRUE(one.m);
    const auto tokens = some_tokens(n_tokens, 1, one.m->info().n_vocab);
    const auto run = [&](model::model& m, std::size_t chunk, std::uint32_t scatter, bool forget) {
        paged_runner runner(m, scatter, forget);
        paged_sequence seq;
        return runner.feed_all(seq, tokens, chunk);
    };
    const auto alone = run(*one.m, 64, 0, false);
    EXPECT_TRUE(same_bits(alone, run(*one.m, 7, 5, true)))
        << "chunks of 7, scattered blocks, those behind the window given away";
    EXPECT_TRUE(same_bits(alone, with_neighbours(*one.m, tokens, 7))) << "7 neighbours, chunks of 7";
    const bool slow_oracle = ops.name == "ref";  // scalar and plain: what is above tells all about it
    if (!slow_oracle) {
        EXPECT_TRUE(same_bits(alone, run(*one.m, 1, 0, false))) << "decode";
        EXPECT_TRUE(same_bits(alone, run(*one.m, 1, 5, true))) << "decode, blocks behind the window given away";
        EXPECT_TRUE(same_bits(alone, with_neighbours(*one.m, tokens, 1))) << "7 neighbours, decode";
        EXPECT_TRUE(same_bits(alone, with_neighbours(*one.m, tokens, 40))) << "7 neighbours, chunks of 40";
    }
    for (const int threads : {2, 3}) {
        if (slow_oracle && threads == 3) continue;
        const loaded more = load_model(path, ops, kv, max_rows, threads);
        EXPECT_TRUE(same_bits(alone, run(*more.m, 64, 0, false))) << threads << " threads, one prefill";
        if (!slow_oracle) {
            EXPECT_TRUE(same_bits(alone, with_neighbours(*more.m, tokens, 7))) << threads << " threads, 7 neighbours";
        }
    }
}

TEST(invariance, tiny_llama_f16_weights) {
    for (const kernels::ops* ops : kernels::available_tables())
        check_invariance(cache_path("tiny/llama.gguf"), *ops, kernels::dtype::f16, 48, 64);
}

TEST(invariance, tiny_llama_quantized_weights) {
    for (const kernels::ops* ops : kernels::available_tables())
        check_invariance(data_path("tiny/llama-Q4_K_M.gguf"), *ops, kernels::dtype::bf16, 48, 64);
}

TEST(invariance, tiny_gemma3_across_its_window) {
    for (const kernels::ops* ops : kernels::available_tables()) {
        check_invariance(cache_path("tiny/gemma3.gguf"), *ops, kernels::dtype::f32, 48, 64);
        if (ops->name != "ref") check_invariance(cache_path("tiny/gemma3.gguf"), *ops, kernels::dtype::q8_0, 48, 64);
    }
}

// What the other dense families have that the two above have not: caps on scores, biases, heads' norms with full
// attention, stretched frequencies with a magnitude, layers that do not rotate, parts of matrices.
class dense_invariance : public ::testing::TestWithParam<const char*> {};

TEST_P(dense_invariance, f16_weights) {
    for (const kernels::ops* ops : kernels::available_tables())
        check_invariance(cache_path("tiny/" + std::string(GetParam()) + ".gguf"), *ops, kernels::dtype::f16, 48, 64);
}

INSTANTIATE_TEST_SUITE_P(tiny, dense_invariance,
    ::testing::Values("gemma2", "mistral", "phi3", "qwen2", "qwen3", "smollm3"),
    [](const auto& info) { return std::string(info.param); });

TEST(invariance, tiny_deepseek2_across_a_piece) {
    for (const kernels::ops* ops : kernels::available_tables()) {
        const bool slow_oracle = ops->name == "ref";
        check_invariance(cache_path("tiny/deepseek2.gguf"), *ops, kernels::dtype::f16, slow_oracle ? 30 : 140, 64);
        if (slow_oracle) continue;
        check_invariance(cache_path("tiny/deepseek2-mixed.gguf"), *ops, kernels::dtype::q8_0, 48, 64);
        check_invariance(cache_path("tiny/deepseek2-legacy.gguf"), *ops, kernels::dtype::bf16, 48, 64);
    }
}

TEST(invariance, only_the_rows_asked_for_and_the_same_bits) {
    for (const kernels::ops* ops : kernels::available_tables()) {
        const loaded l = load_model(cache_path("tiny/gemma3.gguf"), *ops, kernels::dtype::f16);
        ASSERT_TRUE(l.m);
        const auto tokens = some_tokens(40, 3, l.m->info().n_vocab);
        paged_runner runner(*l.m);
        paged_sequence a, b, c;
        const auto all = runner.feed_all(a, tokens, 64);
        const std::vector<std::int32_t> rows = {0, 7, 39};
        const paged_runner::feed f{&b, tokens, want::rows, rows};
        const auto some = runner.step({&f, 1});
        const auto width = static_cast<std::size_t>(l.m->info().n_vocab);
        for (std::size_t i = 0; i < rows.size(); ++i)
            EXPECT_EQ(
                std::memcmp(&some[i * width], &all[static_cast<std::size_t>(rows[i]) * width], width * sizeof(float)),
                0);
        const std::uint64_t before = runner.progress();
        EXPECT_TRUE(runner.feed_all(c, tokens, 64, want::none).empty());
        EXPECT_EQ(runner.progress() - before, 6u) << "one a layer";
    }
}

TEST(invariance, smollm2_on_the_best_table) {
    // 140 tokens: attention merges pieces of 128 keys, and decode crosses their border.
    const auto& ops = **kernels::table("auto");
    const loaded l = load_model(cache_path("models/smollm2.gguf"), ops, kernels::dtype::f16, 140);
    ASSERT_TRUE(l.m);
    const auto tokens = some_tokens(140, 1, l.m->info().n_vocab);
    paged_runner runner(*l.m);
    paged_sequence whole, pieces, single;
    const auto alone = runner.feed_all(whole, tokens, 140);
    EXPECT_TRUE(same_bits(alone, runner.feed_all(pieces, tokens, 7))) << "chunks of 7";
    EXPECT_TRUE(same_bits(alone, runner.feed_all(single, tokens, 1))) << "decode";
    EXPECT_TRUE(same_bits(alone, with_neighbours(*l.m, tokens, 64))) << "7 neighbours";
}

}  // namespace
}  // namespace troupe::testing
