// What a file may claim and what happens then: typed errors that name the fault, before memory is taken. Faults of
// other engines' loaders (missing layers, zero heads, mismatching sizes, unknown types) are here as cases.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "model/formats/gguf.hpp"
#include "model/host_memory.hpp"
#include "model/model.hpp"
#include "tests/support/small_model.hpp"
#include "tests/support/test_models.hpp"

namespace troupe::testing {
namespace {

namespace fs = std::filesystem;
TEST(model_load, refuses_impossible_hyper_parameters) {
    const auto bad = errc::model_malformed;
    expect_refused("llama",
        {
            number("llama.block_count", 0, bad, "block_count"),
            number("llama.block_count", 1025, bad, "block_count"),
            number("llama.block_count", 0xffffffff, bad, "block_count"),
            number("llama.block_count", 3, bad, "blk.2.attn_norm.weight"),
            number("llama.block_count", 1, errc::model_unsupported, "blk.1."),
            {"no block_count", [](gguf_writer& w) { w.remove("llama.block_count"); }, bad, "block_count"},
            {"text for a number", [](gguf_writer& w) { w.text("llama.block_count", "2"); }, bad, "block_count"},
            number("llama.attention.head_count", 0, bad, "head_count"),
            number("llama.attention.head_count_kv", 0, bad, "head_count_kv"),
            number("llama.attention.head_count_kv", 3, bad, "no multiple"),
            number("llama.attention.key_length", 0, bad, "key_length"),
            number("llama.attention.key_length", 24, errc::model_unsupported, "multiples of 16"),
            number("llama.attention.value_length", 32, errc::model_unsupported, "differ in length"),
            number("llama.embedding_length", 0, bad, "embedding_length"),
            number("llama.embedding_length", 64, bad, "token_embd.weight"),
            number("llama.feed_forward_length", 65, bad, "ffn_gate"),
            number("llama.context_length", 0, bad, "context_length"),
            number("llama.vocab_size", 9, bad, "vocab_size"),
            number("llama.rope.dimension_count", 7, bad, "rope"),
            number("llama.rope.dimension_count", 18, bad, "rope"),
            number("llama.expert_count", 8, errc::model_unsupported, "experts"),
            {"eps 0", [](gguf_writer& w) { w.f32("llama.attention.layer_norm_rms_epsilon", 0); }, bad, "epsilon"},
            {"eps NaN",
                [](gguf_writer& w) {
                    w.f32("llama.attention.layer_norm_rms_epsilon", std::numeric_limits<float>::quiet_NaN());
                },
                bad, "epsilon"},
            {"rope scaling of the future", [](gguf_writer& w) { w.text("llama.rope.scaling.type", "dynamic"); },
                errc::model_unsupported, "dynamic"},
            {"other vocabulary", [](gguf_writer& w) { w.texts("tokenizer.ggml.tokens", {"a"}); }, bad, "tokenizer"},
        });
    expect_refused("gemma3",
        {
            number("gemma3.attention.sliding_window", 0, bad, "sliding_window"),
            {"no window", [](gguf_writer& w) { w.remove("gemma3.attention.sliding_window"); }, bad, "sliding_window"},
            {"infinite scale",
                [](gguf_writer& w) { w.f32("gemma3.attention.scale", std::numeric_limits<float>::infinity()); }, bad,
                "scale"},
        });
}

TEST(model_load, refuses_tensors_that_do_not_fit) {
    const auto bad = errc::model_malformed;
    expect_refused("llama",
        {
            {"missing", [](gguf_writer& w) { w.find("blk.1.ffn_up.weight").name = "blk.1.ffn_u.weight"; }, bad,
                "blk.1.ffn_up.weight"},
            {"no embedding", [](gguf_writer& w) { w.tensors.erase(w.tensors.begin()); }, bad, "token_embd.weight"},
            {"transposed",
                [](gguf_writer& w) {
                    std::swap(w.find("blk.0.ffn_up.weight").shape[0], w.find("blk.0.ffn_up.weight").shape[1]);
                },
                bad, "[64, 32], not [32, 64]"},
            {"three dimensions",
                [](gguf_writer& w) {
                    w.find("blk.0.ffn_up.weight").shape = {32, 32, 2};
                },
                bad, "ffn_up"},
            {"quantized norm", [](gguf_writer& w) { w.find("output_norm.weight").type = type_q8_0; },
                errc::model_unsupported, "output_norm.weight"},
            {"type of the future", [](gguf_writer& w) { w.find("blk.0.attn_q.weight").type = 99; },
                errc::model_unsupported, "blk.0.attn_q.weight"},
            {"twice", [](gguf_writer& w) { w.find("blk.1.attn_q.weight").name = "blk.0.attn_q.weight"; }, bad, "twice"},
            {"unknown", [](gguf_writer& w) { w.add("blk.0.attn_q_norm.weight", {16}); }, errc::model_unsupported,
                "attn_q_norm"},
        });
}

TEST(model_load, refuses_other_families_by_name) {
    gguf_writer w = small_model("llama");
    w.text("general.architecture", "mamba");
    EXPECT_EQ(plan_of(w).error().code, errc::model_unsupported);
    EXPECT_NE(plan_of(w).error().message.find("mamba"), std::string::npos);
    w.remove("general.architecture");
    EXPECT_EQ(plan_of(w).error().code, errc::model_malformed);
}

TEST(model_load, checks_the_kv_type) {
    EXPECT_EQ(plan_of(small_model("llama"), kernels::dtype::q4_0).error().code, errc::usage);
    EXPECT_EQ(plan_of(small_model("llama"), kernels::dtype::q8_0).error().code, errc::model_unsupported)
        << "heads of 16 values";
}

TEST(model_load, biases_and_rotary_factors_are_optional) {
    gguf_writer w = small_model("llama");
    w.add("blk.0.attn_q.bias", {32});
    EXPECT_TRUE(plan_of(w).ok());
    w.add("rope_freqs.weight", {8});
    EXPECT_EQ(plan_of(w).error().code, errc::model_malformed) << "divisors of zero";
}

TEST(model_plan, gemma3_has_a_full_and_a_windowed_group) {
    const auto file = model::gguf_file::open(cache_path("tiny/gemma3.gguf"));
    ASSERT_TRUE(file.ok());
    const auto plan = model::plan(**file, {.ops = *kernels::table("ref"), .segment_bytes = 1});
    ASSERT_TRUE(plan.ok());
    const auto& groups = plan->layout.groups;
    ASSERT_EQ(groups.size(), 2u);
    EXPECT_EQ(groups[0].window, 0);
    EXPECT_EQ(groups[0].n_layers, 1);
    EXPECT_EQ(groups[1].window, 16);
    EXPECT_EQ(groups[1].n_layers, 5);
    EXPECT_EQ(groups[1].block_bytes, 5u * 16 * 2 * 2 * 128 * 2);
    EXPECT_EQ(plan->layout.segment_bytes, 2u << 20) << "rounded up to a huge page";
    EXPECT_EQ(plan->info.quantization, "F16");
    EXPECT_EQ(plan->info.n_ctx_train, 4096);
    EXPECT_EQ(plan->info.model_hash.size(), 64u);
}

TEST(model_plan, describes_smollm2) {
    const auto file = model::gguf_file::open(cache_path("models/smollm2.gguf"));
    ASSERT_TRUE(file.ok());
    const auto plan = model::plan(**file, {.ops = *kernels::table("ref")});
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->info.architecture, "llama");
    EXPECT_EQ(plan->info.quantization, "Q4_1");
    EXPECT_EQ(plan->info.n_layers, 30);
    EXPECT_EQ(plan->info.n_vocab, 49152);
    ASSERT_EQ(plan->layout.groups.size(), 1u);
    EXPECT_EQ(plan->layout.groups[0].block_bytes, 16u * 23040) << "23,040 bytes a token in f16";
    EXPECT_EQ(plan->layout.groups[0].blocks_per_segment, (8u << 20) / (16 * 23040));
}

TEST(model_hash, changes_with_a_weight_and_with_the_header) {
    const auto hash = [](const std::string& bytes) {
        const auto file = model::gguf_file::parse(std::as_bytes(std::span(bytes)));
        return model::plan(**file, {.ops = *kernels::table("ref"), .max_rows = 8})->info.model_hash;
    };
    gguf_writer w = small_model("llama");
    const std::string bytes = w.bytes();
    std::string other = bytes;
    other.back() = 1;
    EXPECT_EQ(hash(bytes), hash(bytes));
    EXPECT_NE(hash(bytes), hash(other));
    w.text("general.name", "x");
    EXPECT_NE(hash(bytes), hash(w.bytes()));
}

TEST(model_load, progress_rises_to_one_and_the_context_is_the_smaller_one) {
    const std::string bytes = small_model("llama").bytes();
    const auto file = model::gguf_file::parse(std::as_bytes(std::span(bytes)));
    ASSERT_TRUE(file.ok());
    kernels::pool threads(1);
    std::vector<double> heard;
    model::load_options options{.ops = *kernels::table("ref"), .threads = &threads, .max_rows = 8, .n_ctx = 64};
    options.progress = [&](double share) { heard.push_back(share); };
    const auto m = model::model::load(*file, options);
    ASSERT_TRUE(m.ok()) << m.error().message;
    EXPECT_EQ((*m)->n_ctx(), 64);
    ASSERT_FALSE(heard.empty());
    EXPECT_TRUE(std::is_sorted(heard.begin(), heard.end()));
    EXPECT_DOUBLE_EQ(heard.back(), 1.0);
    options.n_ctx = 100000;
    EXPECT_EQ((*model::model::load(*file, options))->n_ctx(), 128);
}

TEST(model_load, says_what_memory_is_missing) {
    // 768 GiB of weights in a file of holes: must be refused before a byte is packed.
    gguf_writer w = small_model("llama", 1 << 16, 1 << 20);
    const fs::path path = fs::temp_directory_path() / ("troupe-holes-" + std::to_string(getpid()) + ".gguf");
    std::ofstream(path, std::ios::binary) << w.header();
    fs::resize_file(path, w.header().size() + w.data_bytes());
    const auto file = model::gguf_file::open(path);
    fs::remove(path);
    ASSERT_TRUE(file.ok()) << file.error().message;
    kernels::pool threads(1);
    const auto m = model::model::load(*file, {.ops = *kernels::table("ref"), .threads = &threads, .max_rows = 8});
    ASSERT_FALSE(m.ok());
    EXPECT_EQ(m.error().code, errc::out_of_memory);
    EXPECT_NE(m.error().message.find("MiB"), std::string::npos) << m.error().message;
}

class fake_root : public ::testing::Test {
 protected:
    void SetUp() override { fs::create_directories(root_ / "proc/self"); }
    void TearDown() override { fs::remove_all(root_); }
    void write(const std::string& path, const std::string& text) {
        fs::create_directories((root_ / path).parent_path());
        std::ofstream(root_ / path) << text;
    }
    fs::path root_ = fs::temp_directory_path() / ("troupe-root-" + std::to_string(getpid()));
};

TEST_F(fake_root, memory_is_what_the_host_and_every_cgroup_can_give) {
    write("proc/meminfo", "MemTotal: 8000 kB\nMemAvailable:   4000 kB\n");
    EXPECT_EQ(model::available_memory(root_), 4000u << 10);
    write("proc/self/cgroup", "0::/a/b\n");
    write("sys/fs/cgroup/a/b/memory.max", "max\n");
    write("sys/fs/cgroup/a/b/memory.current", "1000\n");
    EXPECT_EQ(model::available_memory(root_), 4000u << 10);
    write("sys/fs/cgroup/a/memory.max", "1000000\n");
    write("sys/fs/cgroup/a/memory.current", "900000\n");
    EXPECT_EQ(model::available_memory(root_), 100000u) << "a limit further up counts";
    write("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 40000\nactive_file 20000\n");
    EXPECT_EQ(model::available_memory(root_), 150000u) << "file pages can be dropped";
    write("proc/self/cgroup", "4:memory:/c\n0::/\n");
    write("sys/fs/cgroup/memory/c/memory.limit_in_bytes", "5000\n");
    write("sys/fs/cgroup/memory/c/memory.usage_in_bytes", "6000\n");
    EXPECT_EQ(model::available_memory(root_), 0u) << "over its limit";
}

}  // namespace
}  // namespace troupe::testing
