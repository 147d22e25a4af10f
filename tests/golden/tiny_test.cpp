// Tiny random-weight models against logits from transformers in double precision (tests/data/logits/README.md), on
// every table.
//
// Tolerances. With float weights (F16 files) and F32 KV every table computes in float: an error of a few units of 2^-24
// a product, about a hundred roundings deep; the other float implementation measured differs by 1.7e-6 relative (L2),
// so 1e-5 leaves the fast tables a factor for their own exp and tanh. The largest deviation of a logit may be 1e-3:
// 20 times what that implementation has, and a quarter of what the smallest known mistake makes (tests of those: see
// tiny_mistakes_test.cpp).
// KV types: k and v are rounded once. The rms error of an element, relative to the rms element, is 2^-12.3 = 2e-4 for
// f16 (11 bits uniform in the mantissa), 8 times that for bf16, and (block maximum of 32 Gaussians, 2.1 sigma) / 127 /
// sqrt(12) = 4.8e-3 for q8_0. Four to six layers of these models turn it into about 5 times as much in the logits
// (measured with `ref`, all three types alike); the bound is 8 times. Quantized weights: `ref` multiplies exact float
// activations, so it obeys the float bound; fast tables quantize activations to 8 bits and must not be further from the
// reference than llama.cpp, which does the same (mean KLD with F32 and F16 KV, measured with mainline commit
// 0c1e57098bba; of its code paths the best).
#include "tests/golden/tiny_models.hpp"

namespace troupe::testing {
namespace {

struct golden {
    const char* name;
    double f32_kv = 0, f16_kv = 0;  ///< llama.cpp's mean KLD, for quantized files
};
void PrintTo(const golden& g, std::ostream* out) { *out << g.name; }

std::string test_name(const ::testing::TestParamInfo<golden>& info) {
    std::string name = info.param.name;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

/// Two files can be one model.
std::string expected_name(const std::string& name) { return name == "deepseek2-legacy" ? "deepseek2" : name; }

constexpr const char* section = "Logits of tiny models";

distance measure(const std::string& name, const kernels::ops& ops, kernels::dtype kv, const std::string& tolerance) {
    const loaded l = load_model(tiny_path(name), ops, kv);
    if (!l.m) return {1e30, 1e30, 1e30, 1e30, 0};
    const distance d = measure_tiny(*l.m, expected_name(name));
    const std::string figure = fmt::format("relative L2 {:.1e}, max delta {:.1e}, mean KLD {:.1e}, top-1 {:.1f} %",
        d.relative, d.max_abs, d.mean_kld, 100 * d.top1);
    fmt::print("{}: {}\n", tiny_case(name, ops, kv), figure);
    record_figure(section, tiny_case(name, ops, kv), figure, tolerance);
    return d;
}

class tiny_golden : public ::testing::TestWithParam<golden> {};

TEST_P(tiny_golden, float_weights_give_float_accuracy) {
    for (const kernels::ops* ops : kernels::available_tables()) {
        const distance d = measure(GetParam().name, *ops, kernels::dtype::f32, "relative < 1e-5, max delta < 1e-3");
        EXPECT_LT(d.relative, 1e-5) << ops->name;
        EXPECT_LT(d.max_abs, 1e-3) << ops->name;
        EXPECT_GT(d.top1, 0.999);
    }
}

TEST_P(tiny_golden, kv_types_cost_their_rounding_only) {
    struct {
        kernels::dtype type;
        double element;  ///< rms rounding error of k and v
    } const types[] = {{kernels::dtype::f16, 2e-4}, {kernels::dtype::bf16, 1.6e-3}, {kernels::dtype::q8_0, 4.8e-3}};
    for (const auto& t : types)
        for (const kernels::ops* ops : kernels::available_tables()) {
            const distance d = measure(GetParam().name, *ops, t.type,
                fmt::format("relative < {:.1e}, 8 roundings to the type", 8 * t.element));
            EXPECT_LT(d.relative, 8 * t.element) << ops->name << ' ' << kernels::info(t.type).name;
            EXPECT_GT(d.relative, t.element) << "KV memory is not in the type that was asked for";
        }
}

TEST_P(tiny_golden, greedy_text_is_the_reference_text) {
    const std::string name = GetParam().name;
    for (const kernels::ops* ops : kernels::available_tables()) {
        const greedy_run expected = read_greedy("logits/" + expected_name(name) + ".greedy.txt").at(0);
        const loaded l = load_model(tiny_path(name), *ops, kernels::dtype::f16);
        ASSERT_TRUE(l.m);
        paged_runner runner(*l.m, 0, true);
        paged_sequence seq;
        std::vector<std::int32_t> text;
        auto logits = runner.feed_all(seq, expected.prompt, 64, want::last);
        while (text.size() < expected.tokens.size()) {
            text.push_back(static_cast<std::int32_t>(argmax(logits)));
            logits = runner.feed_all(seq, std::span(&text.back(), 1), 1, want::last);
        }
        EXPECT_EQ(text, expected.tokens) << ops->name;
        record_figure("Greedy text of tiny models", tiny_case(name, *ops, kernels::dtype::f16),
            fmt::format("{} of {} tokens", text == expected.tokens ? text.size() : 0, expected.tokens.size()),
            "all tokens");
    }
}

INSTANTIATE_TEST_SUITE_P(f16, tiny_golden,
    ::testing::Values(golden{"llama"}, golden{"mistral"}, golden{"smollm3"}, golden{"qwen2"}, golden{"qwen3"},
        golden{"gemma2"}, golden{"gemma3"}, golden{"phi3"}, golden{"deepseek2"}, golden{"deepseek2-legacy"}),
    test_name);

class tiny_quantized : public ::testing::TestWithParam<golden> {};

TEST_P(tiny_quantized, weights_are_no_further_off_than_llama_cpp) {
    const golden& bar = GetParam();
    for (const kernels::ops* ops : kernels::available_tables()) {
        const distance full =
            measure(bar.name, *ops, kernels::dtype::f32, fmt::format("mean KLD <= {:.2e}, llama.cpp's", bar.f32_kv));
        const distance half =
            measure(bar.name, *ops, kernels::dtype::f16, fmt::format("mean KLD <= {:.2e}, llama.cpp's", bar.f16_kv));
        if (ops->name == "ref") {
            EXPECT_LT(full.relative, 1e-5);
        }
        EXPECT_LE(full.mean_kld, bar.f32_kv) << ops->name;
        EXPECT_LE(half.mean_kld, bar.f16_kv) << ops->name;
    }
}

INSTANTIATE_TEST_SUITE_P(k_quants, tiny_quantized,
    ::testing::Values(golden{"llama-Q4_K_M", 1.58e-2, 1.38e-2}, golden{"llama-Q5_K_M", 1.78e-2, 1.75e-2},
        golden{"gemma2-Q4_K_M", 6.54e-3, 6.69e-3}, golden{"gemma2-Q5_K_M", 7.61e-3, 8.51e-3}),
    test_name);

TEST(tiny_contexts, phi3_takes_its_short_factors_for_a_short_context) {
    for (const kernels::ops* ops : kernels::available_tables()) {
        const loaded l = load_model(tiny_path("phi3"), *ops, kernels::dtype::f32, 64, 2, 32);
        ASSERT_TRUE(l.m);
        EXPECT_EQ(l.m->info().numerics, "");
        const distance d = measure_tiny(*l.m, "phi3-short");
        EXPECT_LT(d.relative, 1e-5) << ops->name;
        record_figure(section, fmt::format("phi3 F16, context 32, KV f32, {}", ops->name),
            fmt::format("relative L2 {:.1e}", d.relative), "relative < 1e-5");
    }
}

}  // namespace
}  // namespace troupe::testing
