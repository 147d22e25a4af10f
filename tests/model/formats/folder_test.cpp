// Hugging Face folders: translation of names, rows and types, AWQ's layout, and what is refused with the culprit's
// name.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "model/formats/model_file.hpp"
#include "tests/support/safetensors_writer.hpp"

namespace troupe::model {
namespace {

namespace fs = std::filesystem;
using kernels::dtype;
using testing::safetensors_writer;

/// A folder that opens, for a test to spoil.
class folder : public ::testing::Test {
 protected:
    void SetUp() override {
        path_ = fs::temp_directory_path() / ("troupe-folder-" + std::to_string(::getpid())) / "Tiny-1.5-v2";
        fs::create_directories(path_);
        write("config.json", config());
        write("tokenizer.json", R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"model":{"type":)"
                                R"("BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})");
        write("model.safetensors", embeddings().text());
    }
    void TearDown() override { fs::remove_all(path_.parent_path()); }

    /// `more` begins with a comma.
    static std::string config(const std::string& more = {}, const std::string& type = "llama") {
        return R"({"model_type":")" + type +
               R"(","vocab_size":4,"hidden_size":32,"intermediate_size":32,"num_hidden_layers":2,)"
               R"("num_attention_heads":2,"max_position_embeddings":64,"eos_token_id":[1,2])" +
               more + "}";
    }
    static std::string awq(const std::string& more) {
        return config(R"(,"quantization_config":{"quant_method":"awq","bits":4,"version":"gemm")" + more + "}");
    }
    static safetensors_writer embeddings() {
        safetensors_writer w;
        w.add("model.embed_tokens.weight", "F16", "4,32", 256).add("lm_head.weight", "BF16", "4,32", 256);
        return w;
    }
    void write(const std::string& name, const std::string& content) const {
        std::ofstream(path_ / name, std::ios::binary) << content;
    }
    std::shared_ptr<const model_file> open() const {
        auto file = model_file::open(path_);
        EXPECT_TRUE(file.ok()) << file.error().message;
        return file.ok() ? *file : nullptr;
    }
    void expect_error(errc code, const std::string& part) const {
        const auto file = model_file::open(path_);
        ASSERT_FALSE(file.ok()) << "accepted; expected: " << part;
        EXPECT_EQ(file.error().code, code) << file.error().message;
        EXPECT_NE(file.error().message.find(part), std::string::npos) << file.error().message;
    }

    fs::path path_;
};

TEST_F(folder, metadata_is_translated_into_ggufs_keys) {
    write("config.json", config(R"(,"rms_norm_eps":1e-5,"rope_theta":5e5,"num_key_value_heads":1)"));
    const auto file = open();
    ASSERT_TRUE(file);
    EXPECT_EQ(*file->get_string("general.architecture"), "llama");
    EXPECT_EQ(*file->get_string("general.name"), "Tiny-1.5-v2");
    EXPECT_EQ(*file->get_int("llama.block_count"), 2);
    EXPECT_EQ(*file->get_int("llama.attention.head_count_kv"), 1);
    EXPECT_EQ(*file->get_float("llama.rope.freq_base"), 5e5);
    EXPECT_EQ(*file->get_float("llama.attention.layer_norm_rms_epsilon"), 1e-5);
    EXPECT_EQ(*file->get_int("tokenizer.ggml.eos_token_id"), 1);
    EXPECT_EQ(**file->get_strings("tokenizer.ggml.tokens"), (std::vector<std::string_view>{"a", "b", "ab", "[PAD3]"}));
    EXPECT_FALSE(file->get_int("general.name").ok());
    EXPECT_EQ(file->format(), "Hugging Face folder, safetensors, 3 files");
    EXPECT_EQ(file->file_bytes(), fs::file_size(path_ / "config.json") + fs::file_size(path_ / "tokenizer.json") +
                                      fs::file_size(path_ / "model.safetensors"));
}

TEST_F(folder, tensors_have_ggufs_names_and_shapes) {
    const auto file = open();
    ASSERT_TRUE(file);
    const auto* t = file->tensor("token_embd.weight");
    ASSERT_NE(t, nullptr);
    EXPECT_EQ(t->type, dtype::f16);
    EXPECT_EQ(t->shape, (std::vector<std::int64_t>{32, 4}));
    ASSERT_NE(file->tensor("output.weight"), nullptr);
    EXPECT_EQ(file->tensor("output.weight")->type, dtype::bf16);
    write("config.json", config(R"(,"tie_word_embeddings":true)"));
    EXPECT_EQ(open()->tensor("output.weight"), nullptr) << "tied: the embeddings are used";
}

TEST_F(folder, rows_of_q_and_k_are_paired_for_llama_only) {
    auto w = embeddings();
    w.add("model.layers.0.self_attn.q_proj.weight", "F32", "16,1", 64);  // two heads of 8 rows
    write("model.safetensors", w.text());
    const auto in_order = [&] {
        const auto file = open();
        std::vector<std::byte> buffer;
        const auto bytes = file->tensor("blk.0.attn_q.weight")->contents(buffer);
        return std::vector<std::byte>(bytes.begin(), bytes.end());
    };
    const auto paired = in_order();
    write("config.json", config({}, "qwen2"));
    const auto plain = in_order();
    ASSERT_EQ(paired.size(), plain.size());
    for (std::size_t row = 0; row < 16; ++row) {
        const std::size_t from = row / 8 * 8 + row % 2 * 4 + row % 8 / 2;
        EXPECT_TRUE(std::equal(paired.begin() + static_cast<std::ptrdiff_t>(row * 4),
            paired.begin() + static_cast<std::ptrdiff_t>(row * 4 + 4),
            plain.begin() + static_cast<std::ptrdiff_t>(from * 4)))
            << row;
    }
}

/// Nibble of output `out` in a row of packed words, by AutoAWQ's order 0, 2, 4, 6, 1, 3, 5, 7.
int awq_nibble(const std::vector<std::uint32_t>& row, int out) {
    constexpr int position_of[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    return static_cast<int>(row[static_cast<std::size_t>(out / 8)] >> (4 * position_of[out % 8]) & 15);
}

TEST_F(folder, awq_matrices_mean_scale_times_code_minus_zero) {
    constexpr int n_in = 128, n_out = 16;
    for (const int group : {32, 64, 128})
        for (const bool zeros : {true, false}) {
            auto w = embeddings();
            const auto in = std::to_string(n_in), groups = std::to_string(n_in / group);
            const std::string stem = "model.layers.1.mlp.up_proj.";
            w.add(stem + "qweight", "I32", in + ",2", n_in * 8);
            w.add(stem + "scales", "F16", groups + ",16", static_cast<std::size_t>(n_in / group * 32));
            if (zeros) w.add(stem + "qzeros", "I32", groups + ",2", static_cast<std::size_t>(n_in / group * 8));
            write("model.safetensors", w.text());
            write("config.json", awq(",\"group_size\":" + std::to_string(group) +
                                     (zeros ? ",\"zero_point\":true" : ",\"zero_point\":false")));
            const auto file = open();
            ASSERT_TRUE(file);
            const auto* t = file->tensor("blk.1.ffn_up.weight");
            ASSERT_NE(t, nullptr);
            EXPECT_EQ(t->shape, (std::vector<std::int64_t>{n_in, n_out}));
            EXPECT_EQ(kernels::info(t->type).block_values, group);
            std::vector<std::byte> buffer;
            std::vector<float> got(n_in * n_out);
            kernels::dequantize(t->type, t->contents(buffer).data(), n_in * n_out, got.data());

            const auto file_bytes = w.bytes();
            const std::byte* at = file_bytes.data() + file_bytes.size() -
                                  static_cast<std::size_t>(n_in * 8 + n_in / group * (zeros ? 40 : 32));
            const auto words = [&](const std::byte* p) {
                std::vector<std::uint32_t> row(2);
                std::memcpy(row.data(), p, 8);
                return row;
            };
            const std::byte *scales = at + n_in * 8, *zero_rows = scales + n_in / group * 32;
            for (int k = 0; k < n_in; ++k)
                for (int o = 0; o < n_out; ++o) {
                    std::uint16_t half;
                    std::memcpy(&half, scales + (k / group * n_out + o) * 2, 2);
                    const int zero = zeros ? awq_nibble(words(zero_rows + k / group * 8), o) : 8;
                    const float expected =
                        static_cast<float>(awq_nibble(words(at + k * 8), o) - zero) * kernels::half_to_float(half);
                    const float value = got[static_cast<std::size_t>(o * n_in + k)];
                    ASSERT_EQ(std::memcmp(&value, &expected, 4), 0) << group << ' ' << k << ' ' << o;
                }
        }
}

TEST_F(folder, awq_parts_that_do_not_fit) {
    const std::string stem = "model.layers.1.mlp.up_proj.";
    auto complete = embeddings();
    complete.add(stem + "qweight", "I32", "64,1", 256)
        .add(stem + "qzeros", "I32", "1,1", 4)
        .add(stem + "scales", "F16", "1,8", 16);
    write("model.safetensors", complete.text());
    expect_error(errc::model_unsupported, "no quantization_config");
    write("config.json", awq(R"(,"group_size":64,"modules_to_not_convert":["up_proj"])"));
    expect_error(errc::model_malformed, "modules_to_not_convert names it");
    write("config.json", awq(R"(,"group_size":32)"));
    expect_error(errc::model_malformed, "no 'scales'");
    write("config.json", awq(R"(,"group_size":128)"));
    expect_error(errc::model_malformed, "no multiple of the group");
    write("config.json", awq(R"(,"group_size":64)"));
    EXPECT_TRUE(open());
    auto no_zeros = embeddings();
    no_zeros.add(stem + "qweight", "I32", "64,1", 256).add(stem + "scales", "F16", "1,8", 16);
    write("model.safetensors", no_zeros.text());
    expect_error(errc::model_malformed, "no 'qzeros'");
}

TEST_F(folder, what_is_not_built_is_named) {
    const auto refuse = [&](const std::string& json, const std::string& part) {
        write("config.json", json);
        expect_error(errc::model_unsupported, part);
    };
    refuse(config({}, "mamba"), "'mamba' is not one of llama");
    refuse(config(R"(,"hidden_act":"relu")"), "'relu'");
    refuse(config(R"(,"rope_scaling":{"rope_type":"dynamic","factor":2.0})"), "'dynamic'");
    refuse(config(R"(,"quantization_config":{"quant_method":"gptq"})"), "'gptq'");
    refuse(awq(R"(,"group_size":-1)"), "groups of -1");
    refuse(config(R"(,"quantization_config":{"quant_method":"awq","bits":8})"), "4 bits");
    refuse(config(R"(,"quantization_config":{"quant_method":"awq","bits":4,"version":"gemv"})"), "'gemv'");
    write("config.json", config());
    write("model.safetensors", embeddings().add("model.norm.weight", "F8_E4M3", "32", 32).text());
    expect_error(errc::model_unsupported, "'model.norm.weight' has type 'F8_E4M3'");
    write("model.safetensors", embeddings().text());
    const auto tokenizer = [&](const std::string& json, const std::string& part) {
        write("tokenizer.json", json);
        expect_error(errc::model_unsupported, part);
    };
    tokenizer(R"({"model":{"type":"Unigram"}})", "'Unigram'");
    tokenizer(
        R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"x+"},"behavior":"Isolated"},"model":{"vocab":{},"merges":[]}})",
        "split x+");
    tokenizer(R"({"normalizer":{"type":"Lowercase"},"model":{"vocab":{},"merges":[]}})", "'Lowercase'");
}

TEST_F(folder, files_and_tensors_that_are_missing) {
    write("model.safetensors", safetensors_writer().add("model.embed_tokens.weight", "F16", "4,32", 256).text());
    expect_error(errc::model_malformed, "lm_head.weight");
    for (const char* name : {"model.safetensors", "tokenizer.json", "config.json"}) {
        fs::remove(path_ / name);
        expect_error(errc::model_missing, name);
    }
}

TEST_F(folder, shards_are_those_of_the_index_and_of_this_folder) {
    fs::rename(path_ / "model.safetensors", path_ / "model-1.safetensors");
    const std::string index = "model.safetensors.index.json";
    const auto map = [&](const std::string& file, const std::string& more = {}) {
        write(index, R"({"weight_map":{"model.embed_tokens.weight":")" + file +
                         R"(","lm_head.weight":"model-1.safetensors")" + more + "}}");
    };
    map("model-1.safetensors");
    EXPECT_TRUE(open());
    for (const char* outside : {"../model-1.safetensors", "/etc/x.safetensors", "a/b.safetensors",
             "..\\\\b.safetensors", "model-1.bin", ".safetensors", ""}) {
        map(outside);
        expect_error(errc::model_malformed, "not in a .safetensors file of this folder");
    }
    map("model-2.safetensors");
    expect_error(errc::model_missing, "model-2.safetensors");
    map("model-1.safetensors", R"(,"model.norm.weight":"model-1.safetensors")");
    expect_error(errc::model_malformed, "lacks tensor 'model.norm.weight'");
    fs::copy(path_ / "model-1.safetensors", path_ / "model-2.safetensors");
    map("model-2.safetensors");
    expect_error(errc::model_malformed, "is in two shards");
}

}  // namespace
}  // namespace troupe::model
