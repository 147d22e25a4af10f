#include "actors/executor/model_backend.hpp"

#include <gtest/gtest.h>

#include "actors/executor/plan_runner.hpp"
#include "tests/actors/executor/plan_helper.hpp"
#include "tests/support/test_models.hpp"

namespace troupe::actors {
namespace {

using test::plan_writer;

executor_arguments tiny(const std::string& file) {
    return {.model = testing::cache_path("tiny/" + file), .threads = 2, .kv_memory = 256u << 20, .max_rows = 64};
}

std::vector<token_id> run(const executor_arguments& a, const std::vector<token_id>& tokens, std::int64_t n_prompt,
    std::size_t n, std::int32_t chunk) {
    double progress = 0;
    auto loaded = load_model(a)([&](double p) { progress = p; });
    if (!loaded) {
        ADD_FAILURE() << loaded.error().message;
        return {};
    }
    EXPECT_EQ(progress, 1.0);
    backend& b = **loaded;
    progress_page page;
    fault_injector faults([](std::string_view) {});
    plan_runner runner(b, page, faults, [](sequence_id) { return false; });
    EXPECT_TRUE(runner.warm_up());
    EXPECT_GT(page.progress, 1u);
    std::vector<std::uint32_t> blocks_per_segment;
    for (const auto& g : b.layout().groups) blocks_per_segment.push_back(g.blocks_per_segment);
    plan_writer w(blocks_per_segment);
    const sequence_params params{
        .temperature = 0.8f, .top_p = 0.9f, .top_k = 30, .n_logprobs = 1, .seed = 5, .max_tokens = 500};
    std::vector<token_id> out;
    const auto size = static_cast<std::int32_t>(tokens.size());
    for (std::int32_t pos = 0; out.size() < n;) {
        plan p = w.next();
        if (pos == 0) w.open(p, 1, tokens, n_prompt, params);
        const std::int32_t rows = pos < size ? std::min(chunk, size - pos) : 1;
        w.row(p, 1, pos, rows, pos + rows >= size);
        const auto r = runner.run(p);
        EXPECT_EQ(r.rows.at(0).status, row_status::ok);
        if (r.rows[0].status != row_status::ok) break;
        if (r.rows.at(0).sampled) {
            out.push_back(r.rows[0].token);
            EXPECT_LT(r.rows[0].logprob, 0);
        }
        pos += rows;
    }
    return out;
}

std::vector<token_id> prompt() {
    std::vector<token_id> ids;
    for (token_id i = 0; i < 50; ++i) ids.push_back((i * 11 + 2) % 200);
    return ids;
}

class model_backend_on : public ::testing::TestWithParam<const char*> {};

TEST_P(model_backend_on, samples_the_same_in_chunks_and_after_a_restart) {
    const auto a = tiny(GetParam());
    const auto expected = run(a, prompt(), 50, 24, 64);
    ASSERT_EQ(expected.size(), 24u);
    EXPECT_EQ(run(a, prompt(), 50, 24, 7), expected);
    auto resumed = prompt();
    resumed.insert(resumed.end(), expected.begin(), expected.begin() + 10);
    EXPECT_EQ(run(a, resumed, 50, 14, 64), std::vector<token_id>(expected.begin() + 10, expected.end()));
}

INSTANTIATE_TEST_SUITE_P(models, model_backend_on, ::testing::Values("llama.gguf", "gemma3.gguf", "deepseek2-legacy.gguf"));

TEST(model_backend, tells_what_the_scheduler_must_know) {
    auto a = tiny("llama.gguf");
    a.kv_type = "q8_0";
    const auto loaded = load_model(a)([](double) {});
    ASSERT_TRUE(loaded) << loaded.error().message;
    const auto& i = (*loaded)->info();
    EXPECT_EQ(i.max_segments, (256u << 20) / i.segment_bytes);
    EXPECT_EQ(i.max_rows, 64);
    EXPECT_EQ(i.n_threads, 2);
    EXPECT_EQ(i.model_hash.size(), 64u);
    EXPECT_NE(i.numerics_id.find("q8_0"), std::string::npos);
    EXPECT_EQ(layout_of(i), (*loaded)->layout());
}

TEST(model_backend, latents_are_in_the_layout_and_in_the_numerics_id) {
    const auto loaded = load_model(tiny("deepseek2.gguf"))([](double) {});
    ASSERT_TRUE(loaded) << loaded.error().message;
    const auto& i = (*loaded)->info();
    EXPECT_EQ(i.group_latent, std::vector<std::int32_t>{192 + 32});
    EXPECT_EQ(i.group_block_bytes, std::vector<std::uint64_t>{4 * 16 * (192 + 32) * 2});
    EXPECT_EQ(layout_of(i), (*loaded)->layout());
    EXPECT_NE(i.numerics_id.find("-latent224"), std::string::npos) << i.numerics_id;
}

TEST(model_backend, refuses_with_the_reason) {
    const auto code = [](executor_arguments a) {
        auto loaded = load_model(std::move(a))([](double) {});
        return loaded ? std::string("loaded") : std::string(info(loaded.error().code).name);
    };
    EXPECT_EQ(code(tiny("no such file.gguf")), "model_missing");
    auto a = tiny("llama.gguf");
    a.kv_memory = 1;
    EXPECT_EQ(code(a), "out_of_memory");
    a = tiny("llama.gguf");
    a.kernels = "abacus";
    EXPECT_EQ(code(a), "usage");
    a = tiny("llama.gguf");
    a.kv_type = "q4_k";
    EXPECT_NE(code(a), "loaded");
}

}  // namespace
}  // namespace troupe::actors
