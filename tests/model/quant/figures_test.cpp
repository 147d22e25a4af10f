// Our quantizers beside llama-quantize's, on the tiny llama in F16 (scripts/compare_quantize measures both side by
// side; the bars are llama-quantize of llama-cpp-python 0.3.36, 2026-11-30, a tool that gives the same bytes in every
// run).
//
// The root mean square error of the weights must not be above llama-quantize's, for every type. The KL divergence to
// the F16 model's logits is that of float arithmetic (reference table, F32 KV), so that only the weights make the
// difference. These models have random weights, which turn a given error of the weights into a divergence that depends
// on chance: over five tiny models the ratio of two quantizers of equal error scatters by about 12 % a model and type.
// So a single case may be 15 % above, the cases that the goldens name must be below, and so must the geometric mean
// over all types, which chance moves by 3 %.
#include <cmath>
#include <cstdio>

#include "tests/model/quant/quant_support.hpp"
#include "tests/support/figures.hpp"
#include "tests/support/quant_figures.hpp"

namespace troupe::testing {
namespace {

struct bar {
    const char* type;
    double rmse, kld;  ///< llama-quantize's
};
constexpr double by_chance = 1.15;

/// Cases the goldens name.
bool strict(std::string_view type) { return type == "Q4_K_M" || type == "Q5_K_M"; }

struct measured {
    double rmse, kld;
};
measured measure(const std::string& name, const char* type) {
    const temporary_folder folder;
    const std::string in = cache_path("tiny/" + name + ".gguf"), out = (folder / "out.gguf").string();
    const auto r = quantize_file(in, out, *model::file_type_from_name(type));
    EXPECT_TRUE(r.ok()) << r.error().message;
    if (!r.ok()) return {1e9, 1e9};
    const auto expected = read_array<float>("logits/" + name + ".f32");
    const auto tokens = read_array<std::int32_t>("logits/tokens.i32");
    const distance d = compare(expected, logits_of(out, **kernels::table("ref"), tokens), 320);
    return {weight_rmse(**model::model_file::open(in), **model::model_file::open(out)), d.mean_kld};
}

void record(const std::string& name, const bar& b, const measured& m) {
    std::printf("%s %s: RMSE %.4e (llama-quantize %.4e), mean KLD %.3e (%.3e)\n", name.c_str(), b.type, m.rmse, b.rmse,
        m.kld, b.kld);
    record_figure("Quantizers", fmt::format("{} F16 to {}, RMSE of the weights", name, b.type),
        fmt::format("{:.4e}", m.rmse), fmt::format("<= {:.4e} (llama-quantize)", b.rmse));
    record_figure("Quantizers", fmt::format("{} F16 to {}, mean KLD", name, b.type), fmt::format("{:.3e}", m.kld),
        fmt::format("llama-quantize {:.3e}; see tests/model/quant/figures_test.cpp", b.kld));
}

TEST(quantize_figures, llama_is_no_further_off_than_with_llama_quantize) {
    constexpr bar bars[] = {
        {"Q4_0", 7.6941e-03, 1.674e+00},
        {"Q4_1", 7.0130e-03, 1.430e+00},
        {"Q5_0", 3.8593e-03, 5.486e-01},
        {"Q5_1", 3.4330e-03, 4.594e-01},
        {"Q8_0", 5.1141e-04, 1.119e-02},
        {"Q2_K", 2.2881e-02, 4.470e+00},
        {"Q3_K_S", 1.3488e-02, 3.263e+00},
        {"Q3_K_M", 1.1552e-02, 2.885e+00},
        {"Q3_K_L", 1.1114e-02, 2.808e+00},
        {"Q4_K_S", 6.3428e-03, 1.241e+00},
        {"Q4_K_M", 6.1918e-03, 1.270e+00},
        {"Q5_K_S", 3.2794e-03, 4.354e-01},
        {"Q5_K_M", 3.1941e-03, 4.180e-01},
        {"Q6_K", 1.6925e-03, 1.231e-01},
        {"IQ4_NL", 6.8229e-03, 1.506e+00},
        {"IQ4_XS", 6.8751e-03, 1.458e+00},
    };
    double logs = 0;
    for (const bar& b : bars) {
        const measured m = measure("llama", b.type);
        record("llama", b, m);
        EXPECT_LE(m.rmse, b.rmse) << b.type;
        EXPECT_LE(m.kld, (strict(b.type) ? 1.0 : by_chance) * b.kld) << b.type;
        logs += std::log(m.kld / b.kld) / static_cast<double>(std::size(bars));
    }
    EXPECT_LT(std::exp(logs), 0.97) << "geometric mean of the KLD ratios";
}

TEST(quantize_figures, gemma2_too) {
    for (const bar& b : {bar{"Q4_K_M", 5.9856e-03, 4.651e-01}, bar{"Q5_K_M", 3.0532e-03, 1.513e-01}}) {
        const measured m = measure("gemma2", b.type);
        record("gemma2", b, m);
        EXPECT_LE(m.rmse, b.rmse) << b.type;
        EXPECT_LE(m.kld, b.kld) << b.type;
    }
}

}  // namespace
}  // namespace troupe::testing
