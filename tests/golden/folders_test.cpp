// Hugging Face folders of the tiny models: the same weights as in the GGUF files, so the same logits; and AWQ.
//
// Tolerances. A bf16 folder and the F16 file of a family hold exactly the same numbers, and a table's float product
// does not care which of the two types they came from: 1e-6 relative is a few roundings. Only rotary divisors and
// magnitudes take different ways (float32 in the file, double in the folder), by 2^-25 of an angle of up to 48: folders
// of families that have them must keep the float bound of tiny_test.cpp instead.
// AWQ: `ref` multiplies exact float activations, so it obeys that bound too. Fast tables round activations to 8 bits as
// they do for every 4-bit type; the bar is llama.cpp's mean KLD for the Q4_K_M file of the tiny llama, whose
// activations it rounds likewise (tests/data/logits/README.md).
#include "tests/golden/tiny_models.hpp"

namespace troupe::testing {
namespace {

constexpr const char* section = "Hugging Face folders";

std::string folder_path(const std::string& name) { return cache_path("tiny/hf/" + name); }

std::vector<float> logits_of(model::model& m) {
    const auto tokens = read_array<std::int32_t>("logits/tokens.i32");
    paged_runner runner(m);
    paged_sequence seq;
    return runner.feed_all(seq, tokens, 64);
}

class folder : public ::testing::TestWithParam<const char*> {};

TEST_P(folder, gives_the_logits_of_the_gguf_file) {
    const std::string name = GetParam();
    for (const kernels::ops* ops : kernels::available_tables()) {
        const loaded from_folder = load_model(folder_path(name + "-bf16"), *ops, kernels::dtype::f32);
        const loaded from_file = load_model(tiny_path(name), *ops, kernels::dtype::f32);
        ASSERT_TRUE(from_folder.m && from_file.m);
        EXPECT_EQ(from_folder.m->info().architecture, from_file.m->info().architecture);
        EXPECT_EQ(from_folder.m->info().quantization, "BF16");
        EXPECT_EQ(from_folder.m->info().name, name + "-bf16");
        const std::int64_t divisors = name == "mistral" ? 32 : 0;  // rope_freqs, which a folder has no tensor for
        EXPECT_EQ(from_folder.m->info().n_params + divisors, from_file.m->info().n_params);
        EXPECT_EQ(from_folder.m->info().model_hash.size(), 64u);
        const distance d = compare(logits_of(*from_file.m), logits_of(*from_folder.m), tiny_vocab);
        const bool exact = name != "mistral" && name != "phi3" && name != "deepseek2";
        const double bound = exact ? 1e-6 : 1e-5;
        EXPECT_LT(d.relative, bound) << ops->name;
        record_figure(section, fmt::format("{} bf16, KV f32, {}", name, ops->name),
            fmt::format("relative L2 {:.1e} to the GGUF file", d.relative), fmt::format("relative < {:.0e}", bound));
    }
}

INSTANTIATE_TEST_SUITE_P(families, folder,
    ::testing::Values("llama", "mistral", "smollm3", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "deepseek2"),
    [](const auto& info) { return std::string(info.param); });

class folder_awq : public ::testing::TestWithParam<const char*> {};

TEST_P(folder_awq, is_no_further_off_than_a_4_bit_file) {
    constexpr double q4_bar = 1.58e-2;
    const std::string name = GetParam() + std::string("-awq");
    for (const kernels::ops* ops : kernels::available_tables()) {
        const loaded l = load_model(folder_path(name), *ops, kernels::dtype::f32);
        ASSERT_TRUE(l.m);
        EXPECT_EQ(l.m->info().quantization, "AWQ_64");
        const distance d = measure_tiny(*l.m, name);
        const auto figure = fmt::format("relative L2 {:.1e}, mean KLD {:.1e}", d.relative, d.mean_kld);
        fmt::print("{} {}: {}\n", name, ops->name, figure);
        record_figure(section, fmt::format("{}, KV f32, {}", name, ops->name), figure,
            ops->name == "ref" ? "relative < 1e-5" : fmt::format("mean KLD <= {:.2e}", q4_bar));
        if (ops->name == "ref") {
            EXPECT_LT(d.relative, 1e-5);
        }
        EXPECT_LE(d.mean_kld, q4_bar) << ops->name;
    }
}

INSTANTIATE_TEST_SUITE_P(families, folder_awq, ::testing::Values("llama", "deepseek2"),
    [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace troupe::testing
