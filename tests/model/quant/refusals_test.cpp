// What quantize refuses: each with its code, and nothing is left beside the input.
#include <sys/resource.h>

#include <cmath>
#include <csignal>

#include "tests/model/quant/quant_support.hpp"
#include "tests/support/test_models.hpp"

namespace troupe::testing {
namespace {

using model::file_type;

class quantize_refuses : public ::testing::Test {
 protected:
    void expect(const result<model::quantize_summary>& r, errc code, const std::string& part) {
        ASSERT_FALSE(r.ok()) << part;
        EXPECT_EQ(r.error().code, code) << r.error().message;
        EXPECT_NE(r.error().message.find(part), std::string::npos) << r.error().message;
        EXPECT_FALSE(std::filesystem::exists(folder_ / "out.gguf"));
        EXPECT_LE(folder_.n_files(), 1u) << "something was left behind";
    }
    std::filesystem::path with_values(const std::vector<float>& values, std::uint64_t cols = 32) {
        gguf_builder w;
        write_bytes(folder_ / "in.gguf", one_matrix(w, cols, values.size() / cols, values));
        return folder_ / "in.gguf";
    }
    result<model::quantize_summary> run(const std::filesystem::path& in, file_type type = file_type::q4_0) {
        return quantize_file(in, folder_ / "out.gguf", type);
    }
    temporary_folder folder_;
};

TEST_F(quantize_refuses, inputs_that_are_no_models) {
    expect(run(folder_ / "none.gguf"), errc::model_missing, "none.gguf");
    write_bytes(folder_ / "in.gguf", std::vector<std::byte>(100, std::byte{'x'}));
    expect(run(folder_ / "in.gguf"), errc::model_malformed, "");
    auto cut = read_bytes(data_path("tiny/llama-Q4_K_M.gguf"));
    cut.resize(cut.size() / 2);
    write_bytes(folder_ / "in.gguf", cut);
    expect(run(folder_ / "in.gguf"), errc::model_malformed, "");
    gguf_builder strange;
    strange.tensor("a.weight", {256}, 16, 66);
    write_bytes(folder_ / "in.gguf", strange.bytes());
    expect(run(folder_ / "in.gguf"), errc::model_unsupported, "iq2_xxs");
    gguf_builder part;
    part.set("split.count", std::uint16_t{2});
    write_bytes(folder_ / "in.gguf", part.bytes());
    expect(run(folder_ / "in.gguf"), errc::model_unsupported, "one of several parts");
}

TEST_F(quantize_refuses, values_that_no_scale_can_hold) {
    std::vector<float> values(64, 0.5f);
    for (const float v : {NAN, INFINITY, -INFINITY, 1e6f}) {
        values[40] = v;
        expect(run(with_values(values)), errc::model_malformed, "'blk.0.ffn_up.weight'");
        expect(run(with_values(values), file_type::f16), errc::model_malformed, "not finite or too large for f16");
    }
    values[40] = 1e6f;
    EXPECT_TRUE(run(with_values(values), file_type::bf16).ok()) << "bf16 can hold it";
}

TEST_F(quantize_refuses, one_file_for_both) {
    const auto in = with_values(std::vector<float>(64, 0.5f));
    const auto before = read_bytes(in);
    expect(quantize_file(in, in, file_type::q4_0), errc::usage, "same file");
    std::filesystem::create_symlink(in, folder_ / "link.gguf");
    const auto linked = quantize_file(in, folder_ / "link.gguf", file_type::q4_0);
    ASSERT_FALSE(linked.ok());
    EXPECT_EQ(linked.error().code, errc::usage);
    EXPECT_EQ(read_bytes(in), before);
}

TEST_F(quantize_refuses, outputs_that_cannot_be) {
    const auto in = with_values(std::vector<float>(64, 0.5f));
    expect(quantize_file(in, folder_ / "no/such/folder.gguf", file_type::q4_0), errc::io, "cannot be created");
    expect(quantize_file(in, "/dev/null", file_type::q4_0), errc::usage, "no regular file");
}

TEST_F(quantize_refuses, a_full_disk) {
    const auto in = with_values(std::vector<float>(1 << 16, 0.5f));
    rlimit old{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{4096, old.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const auto r = run(in);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
    std::signal(SIGXFSZ, handler);
    expect(r, errc::io, "out.gguf");
}

TEST_F(quantize_refuses, to_quantize_again_unless_asked) {
    const std::string in = data_path("tiny/llama-Q4_K_M.gguf");
    expect(run(in, file_type::q8_0), errc::model_unsupported, "is already q");
    model::quantize_options o;
    o.allow_requantize = true;
    EXPECT_TRUE(quantize_file(in, folder_ / "out.gguf", file_type::q8_0, o).ok());
}

TEST_F(quantize_refuses, an_importance_matrix_of_another_model) {
    const auto in = with_values(std::vector<float>(64, 0.5f));
    model::importance_matrix m;
    m.entries["blk.0.ffn_up.weight"] = std::vector<float>(33, 1.0f);
    model::quantize_options o;
    o.importance = &m;
    expect(quantize_file(in, folder_ / "out.gguf", file_type::q4_0, o), errc::model_malformed, "has 33 values");
}

}  // namespace
}  // namespace troupe::testing
