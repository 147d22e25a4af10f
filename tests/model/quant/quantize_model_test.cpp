// Whole files: mixes, fallbacks, metadata, threads, and every type through a forward pass on every table.
#include <map>

#include "tests/model/quant/quant_support.hpp"
#include "tests/support/quant_figures.hpp"

namespace troupe::testing {
namespace {

using kernels::dtype;
using model::file_type;

std::map<dtype, int> counts(const model::model_file& file) {
    std::map<dtype, int> n;
    for (const auto& t : file.tensors()) ++n[t.type];
    return n;
}

std::shared_ptr<const model::model_file> open_or_fail(const std::filesystem::path& path) {
    auto file = model::model_file::open(path);
    EXPECT_TRUE(file.ok()) << file.error().message;
    return file.ok() ? *file : nullptr;
}

std::vector<model::tensor_plan> plan(const model::model_file& file, file_type type) {
    model::type_choice choice;
    choice.type = type;
    const auto plans = model::plan_tensor_types(file, choice);
    EXPECT_TRUE(plans.ok());
    return plans.ok() ? *plans : std::vector<model::tensor_plan>(file.tensors().size());
}

TEST(quantize_model, mixes_are_those_of_llama_quantize) {
    for (const std::string name : {"llama", "gemma2"})
        for (const auto& [type, number] : {std::pair{"Q4_K_M", file_type::q4_k_m}, {"Q5_K_M", file_type::q5_k_m}}) {
            const auto golden = open_or_fail(data_path("tiny/" + name + "-" + type + ".gguf"));
            const auto file = open_or_fail(cache_path("tiny/" + name + ".gguf"));
            const auto plans = plan(*file, number);
            ASSERT_EQ(file->tensors().size(), golden->tensors().size());
            for (std::size_t i = 0; i < plans.size(); ++i) {
                const auto& tensor = file->tensors()[i];
                EXPECT_EQ(plans[i].type, golden->tensor(tensor.name)->type)
                    << name << ' ' << type << ' ' << tensor.name;
            }
        }
}

// Counted in llama-quantize's output for the same file (llama-cpp-python 0.3.36).
TEST(quantize_model, other_mixes_too) {
    const auto file = open_or_fail(cache_path("tiny/llama.gguf"));
    const std::pair<file_type, std::map<dtype, int>> expected[] = {
        {file_type::q4_0, {{dtype::f32, 9}, {dtype::q4_0, 29}, {dtype::q6_k, 1}}},
        {file_type::q8_0, {{dtype::f32, 9}, {dtype::q8_0, 30}}},
        {file_type::q2_k, {{dtype::f32, 9}, {dtype::q2_k, 17}, {dtype::q3_k, 12}, {dtype::q6_k, 1}}},
        {file_type::q3_k_s, {{dtype::f32, 9}, {dtype::q3_k, 29}, {dtype::q6_k, 1}}},
        {file_type::q3_k_m,
            {{dtype::f32, 9}, {dtype::q3_k, 17}, {dtype::q4_k, 10}, {dtype::q5_k, 2}, {dtype::q6_k, 1}}},
        {file_type::q3_k_l, {{dtype::f32, 9}, {dtype::q3_k, 17}, {dtype::q5_k, 12}, {dtype::q6_k, 1}}},
        {file_type::q4_k_s, {{dtype::f32, 9}, {dtype::q4_k, 25}, {dtype::q5_k, 4}, {dtype::q6_k, 1}}},
        {file_type::q5_k_s, {{dtype::f32, 9}, {dtype::q5_k, 29}, {dtype::q6_k, 1}}},
        {file_type::iq4_xs, {{dtype::f32, 9}, {dtype::iq4_xs, 29}, {dtype::q6_k, 1}}},
    };
    for (const auto& [type, types] : expected) {
        std::map<dtype, int> n;
        for (const auto& p : plan(*file, type)) ++n[p.type];
        EXPECT_EQ(n, types) << model::file_type_name(type);
    }
}

TEST(quantize_model, metadata_is_kept) {
    const temporary_folder folder;
    gguf_builder w;
    w.set("general.architecture", "llama").set("general.file_type", std::uint32_t{1}).set("general.alignment", 64u);
    w.set("a.flag", true).set("a.small", std::int8_t{-3}).set("a.wide", std::uint64_t{1} << 40).set("a.double", 0.1);
    w.set_array("a.texts", std::vector<std::string>{"x", "", "\xc3\xa9"})
        .set_array("a.numbers", std::vector<float>{1, 2});
    w.set("split.count", std::uint16_t{1});
    w.alignment = 64;
    write_bytes(folder / "in.gguf", one_matrix(w, 32, 3, std::vector<float>(96, 0.5f)));
    ASSERT_TRUE(quantize_file(folder / "in.gguf", folder / "out.gguf", file_type::q8_0).ok());
    const auto in = open_or_fail(folder / "in.gguf"), out = open_or_fail(folder / "out.gguf");
    for (const auto key : in->keys()) {
        if (key == "general.file_type" || key == "split.count") continue;
        EXPECT_EQ(out->type_of(key), in->type_of(key)) << key;
        EXPECT_EQ(out->describe(key), in->describe(key)) << key;
    }
    EXPECT_EQ(out->describe("general.file_type"), "7");
    EXPECT_EQ(out->describe("general.quantization_version"), "2");
    EXPECT_FALSE(out->type_of("split.count").has_value());
    EXPECT_EQ(folder.n_files(), 2u);
}

TEST(quantize_model, rows_that_are_no_whole_blocks_get_another_type) {
    const temporary_folder folder;
    const std::pair<file_type, dtype> cases[] = {{file_type::q4_k_s, dtype::q5_0}, {file_type::q5_k_s, dtype::q5_1},
        {file_type::q6_k, dtype::q8_0}, {file_type::q2_k, dtype::q4_0}, {file_type::q3_k_s, dtype::q4_0},
        {file_type::iq4_xs, dtype::iq4_nl}};
    for (const std::uint64_t cols : {288u, 40u}) {
        gguf_builder w;
        write_bytes(folder / "in.gguf", one_matrix(w, cols, 2, std::vector<float>(2 * cols, 0.25f)));
        for (const auto& [type, fallback] : cases) {
            const auto r = quantize_file(folder / "in.gguf", folder / "out.gguf", type);
            ASSERT_TRUE(r.ok()) << r.error().message;
            EXPECT_EQ(r->n_fallback, 1u);
            EXPECT_EQ(open_or_fail(folder / "out.gguf")->tensors()[0].type, cols == 40 ? dtype::f16 : fallback);
        }
    }
}

TEST(quantize_model, options_overrule_the_mix) {
    const temporary_folder folder;
    const std::string in = cache_path("tiny/llama.gguf");
    model::quantize_options o;
    o.choice.pure = true;
    ASSERT_TRUE(quantize_file(in, folder / "out.gguf", file_type::q4_k_m, o).ok());
    EXPECT_EQ(counts(*open_or_fail(folder / "out.gguf")), (std::map<dtype, int>{{dtype::f32, 9}, {dtype::q4_k, 30}}));
    o = {};
    o.choice.keep_output = true;
    o.choice.embedding = dtype::q8_0;
    o.choice.with_name = {{"attn_q", dtype::q6_k}};
    ASSERT_TRUE(quantize_file(in, folder / "out.gguf", file_type::q4_k_s, o).ok());
    const auto file = open_or_fail(folder / "out.gguf");
    EXPECT_EQ(file->tensor("output.weight")->type, dtype::f16);
    EXPECT_EQ(file->tensor("token_embd.weight")->type, dtype::q8_0);
    EXPECT_EQ(file->tensor("blk.2.attn_q.weight")->type, dtype::q6_k);
    EXPECT_EQ(file->tensor("blk.3.ffn_up.weight")->type, dtype::q4_k);
    o = {};
    o.dry_run = true;
    const auto sum = quantize_file(in, folder / "never.gguf", file_type::q4_k_m, o);
    ASSERT_TRUE(sum.ok());
    EXPECT_FALSE(std::filesystem::exists(folder / "never.gguf"));
}

TEST(quantize_model, the_same_bytes_from_any_number_of_threads) {
    const temporary_folder folder;
    for (const int n : {1, 3}) {
        model::quantize_options o;
        o.n_threads = n;
        ASSERT_TRUE(
            quantize_file(cache_path("tiny/llama.gguf"), folder / std::to_string(n), file_type::q4_k_m, o).ok());
    }
    EXPECT_EQ(read_bytes(folder / "1"), read_bytes(folder / "3"));
}

TEST(quantize_model, copy_changes_no_tensor_and_replaces_what_was_there) {
    const temporary_folder folder;
    const std::string in = data_path("tiny/llama-Q4_K_M.gguf");
    write_bytes(folder / "out.gguf", {std::byte{1}});
    model::quantize_options o;
    o.copy = true;
    ASSERT_TRUE(quantize_file(in, folder / "out.gguf", file_type::f32, o).ok());
    const auto before = open_or_fail(in), after = open_or_fail(folder / "out.gguf");
    ASSERT_EQ(before->tensors().size(), after->tensors().size());
    for (std::size_t i = 0; i < before->tensors().size(); ++i) {
        const auto &a = before->tensors()[i], &b = after->tensors()[i];
        EXPECT_EQ(a.name, b.name);
        EXPECT_TRUE(std::equal(a.data.begin(), a.data.end(), b.data.begin(), b.data.end())) << a.name;
    }
    EXPECT_EQ(after->describe("general.file_type"), before->describe("general.file_type"));
}

// Fast tables round activations to 8 bits, which costs these models at most what it costs llama.cpp in the goldens: a
// mean KLD of 1.78e-2 to the same weights in float. Uneven levels do not change that error, so one bound serves all
// types.
TEST(quantize_model, every_type_runs_on_every_table) {
    const temporary_folder folder;
    const auto tokens = read_array<std::int32_t>("logits/tokens.i32");
    const std::string out = (folder / "out.gguf").string();
    for (const file_type type : {file_type::q4_0, file_type::q4_1, file_type::q5_0, file_type::q5_1, file_type::q8_0,
             file_type::q2_k, file_type::q3_k_m, file_type::q4_k_m, file_type::q5_k_m, file_type::q6_k,
             file_type::iq4_nl, file_type::iq4_xs, file_type::f16, file_type::bf16, file_type::f32}) {
        ASSERT_TRUE(quantize_file(cache_path("tiny/llama.gguf"), out, type).ok());
        const auto expected = logits_of(out, **kernels::table("ref"), tokens);
        for (const kernels::ops* ops : kernels::available_tables()) {
            if (ops->name == "ref") continue;
            const distance d = compare(expected, logits_of(out, *ops, tokens), 320);
            EXPECT_LE(d.mean_kld, kernels::info(model::base_type(type)).quantized ? 1.78e-2 : 1e-9)
                << ops->name << ' ' << model::file_type_name(type);
        }
    }
}

}  // namespace
}  // namespace troupe::testing
