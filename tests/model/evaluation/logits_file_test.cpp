// llama-perplexity's file of log-probabilities: one that it wrote is understood, what we write is what it would write,
// and damaged files are refused.
#include "model/evaluation/logits_file.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "model/evaluation/divergence.hpp"
#include "tests/support/figures.hpp"
#include "tests/support/paged_runner.hpp"
#include "tests/support/test_models.hpp"

namespace troupe::model::testing {
namespace {

using troupe::testing::cache_path;
using troupe::testing::data_path;

std::string bytes_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

struct scratch_file {
    std::string path = ::testing::TempDir() + "troupe-logits-" + std::to_string(::getpid()) + ".kld";
    ~scratch_file() { std::filesystem::remove(path); }
    void write(const std::string& bytes) const { std::ofstream(path, std::ios::binary) << bytes; }
};

TEST(logits_file, what_llama_cpp_wrote_is_our_own_model) {
    auto opened = logits_reader::open(data_path("evaluation/llama.kld"));
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    const auto& h = opened->header();
    ASSERT_EQ(h.n_ctx, 64);
    ASSERT_EQ(h.n_vocab, 320);
    ASSERT_EQ(h.n_chunks, 2);
    const auto l = troupe::testing::load_model(
        cache_path("tiny/llama.gguf"), *kernels::available_tables()[0], kernels::dtype::f32);
    ASSERT_TRUE(l.m);
    divergence d;
    std::vector<std::uint16_t> rows(h.row_words() * static_cast<std::size_t>(h.rows_per_chunk()));
    for (std::size_t chunk = 0; chunk < 2; ++chunk) {
        ASSERT_TRUE(opened->read(rows).ok());
        std::vector<token_id> tokens(h.tokens.begin() + static_cast<std::ptrdiff_t>(chunk) * 64,
            h.tokens.begin() + static_cast<std::ptrdiff_t>(chunk + 1) * 64);
        const auto next = tokens;
        tokens[0] = 1;  // BOS
        troupe::testing::paged_runner runner(*l.m);
        troupe::testing::paged_sequence seq;
        const auto logits = runner.feed_all(seq, tokens, 64);
        for (std::size_t r = 0; r < 31; ++r)
            d.add(score_position(std::span<const float>(logits).subspan((32 + r) * 320, 320),
                packed_row(std::span<const std::uint16_t>(rows).subspan(r * h.row_words(), h.row_words())),
                next[33 + r]));
    }
    troupe::testing::record_figure("Perplexity", "llama-perplexity's file of tiny llama F16 against `ref`",
        fmt::format("mean KLD {:.2e}", d.kld().value),
        "<= 3.2e-05, the largest single KLD of that build's F16 products");
    EXPECT_LE(d.kld().value, 3.2e-5);
    EXPECT_GE(d.kld().value, 0);
    EXPECT_EQ(d.same_top().value, 1);
}

TEST(logits_file, rows_have_the_published_form) {
    const float logits[] = {0, -16, -8, -20, 0};
    std::uint16_t row[10];
    std::fill(std::begin(row), std::end(row), std::uint16_t{7});
    pack_log_probabilities(logits, row);
    float head[2];
    std::memcpy(head, row, sizeof head);
    EXPECT_FLOAT_EQ(head[0], 16.0f / 65535);
    EXPECT_NEAR(head[1], -16 - std::log(2.0), 1e-3);
    EXPECT_EQ(row[4], 65535);
    EXPECT_EQ(row[5], 0);
    EXPECT_EQ(row[6], 32768);
    EXPECT_EQ(row[7], 0);
    EXPECT_EQ(row[8], 65535);
    EXPECT_EQ(row[9], 0);  // fills up to an even number
    const float flat[] = {3, 3};
    std::uint16_t equal[6];
    pack_log_probabilities(flat, equal);
    EXPECT_NEAR(packed_row(equal).log_probability(1), -std::log(2.0), 1e-6);
}

TEST(logits_file, comes_back_as_written) {
    const scratch_file file;
    const logits_header h{.n_ctx = 4, .n_vocab = 3, .n_chunks = 2, .tokens = {0, 1, 2, 0, 1, 1, 2, 2}};
    ASSERT_EQ(h.rows_per_chunk(), 1);
    ASSERT_EQ(h.row_words(), 8u);
    std::vector<std::uint16_t> rows(16);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::uint16_t>(i * 1000);
    auto out = logits_writer::create(file.path, h);
    ASSERT_TRUE(out.ok());
    ASSERT_TRUE(out->write(std::span(rows).first(8)).ok());
    ASSERT_TRUE(out->write(std::span(rows).last(8)).ok());
    ASSERT_TRUE(out->finish().ok());
    auto in = logits_reader::open(file.path);
    ASSERT_TRUE(in.ok()) << in.error().message;
    EXPECT_EQ(in->header().tokens, h.tokens);
    std::vector<std::uint16_t> back(16);
    ASSERT_TRUE(in->read(back).ok());
    EXPECT_EQ(back, rows);
    EXPECT_FALSE(in->read(std::span(back).first(1)).ok());
}

TEST(logits_file, damaged_files_are_refused) {
    const auto good = bytes_of(data_path("evaluation/llama.kld"));
    const scratch_file file;
    const auto refused = [&](const std::string& bytes, const std::string& part) {
        file.write(bytes);
        const auto r = logits_reader::open(file.path);
        ASSERT_FALSE(r.ok()) << part;
        EXPECT_EQ(r.error().code, errc::usage);
        EXPECT_EQ(r.error().param, "kl-divergence-base");
        EXPECT_NE(r.error().message.find(part), std::string::npos) << r.error().message;
    };
    refused("", "holds no log-probabilities");
    refused("GGUF" + good.substr(4), "holds no log-probabilities");
    refused(good.substr(0, 12), "is cut off");
    for (const std::size_t n : {20u, 300u, 40000u}) refused(good.substr(0, n), "is cut off");
    const auto with = [&](std::size_t at, std::int32_t value) {
        auto bytes = good;
        std::memcpy(bytes.data() + at, &value, sizeof value);
        return bytes;
    };
    for (const std::int32_t v : {0, -1, 3, 0x7fffffff}) refused(with(8, v), "cannot be");
    for (const std::int32_t v : {0, -1, 0x7fffffff}) refused(with(12, v), "cannot be");
    for (const std::int32_t v : {0, -1, 0x7fffffff}) refused(with(16, v), "cannot be");
    refused(with(16, 1 << 24), "is cut off");
    refused(with(20, 320), "does not have");
    refused(with(24, -1), "does not have");
    EXPECT_FALSE(logits_reader::open(file.path + ".none").ok());
}

TEST(logits_file, a_place_that_cannot_be_written_is_an_error) {
    EXPECT_EQ(logits_writer::create("/proc/none/x.kld", {.n_ctx = 4, .n_vocab = 3}).error().code, errc::io);
}

}  // namespace
}  // namespace troupe::model::testing
