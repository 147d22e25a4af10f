// Tokenizers a hostile or unknown file may ask for, built with a small writer: typed errors, and nothing guessed.
#include <limits>

#include "tests/model/tokenizers/tokenizer_data.hpp"
#include "tests/support/gguf_builder.hpp"

namespace troupe::model::testing {

namespace {

using troupe::testing::gguf_builder;
using strings = std::vector<std::string>;
using types = std::vector<std::int32_t>;

/// What a test file holds; nullopt leaves the key out.
struct recipe {
    std::optional<std::string> model = "gpt2";
    std::optional<std::string> pre = "gpt-2";
    std::optional<strings> tokens = strings{"a", "b", "ab", "<|end|>"};
    std::optional<types> kinds = types{1, 1, 1, 3};
    std::optional<strings> merges = strings{"a b"};
    std::optional<std::vector<float>> scores;
    std::vector<std::pair<std::string, std::uint32_t>> numbers;
};

recipe spm() {
    recipe r;
    r.model = "llama";
    r.pre.reset();
    r.merges.reset();
    r.tokens = strings{"<unk>", "<s>", "</s>", "a", "\u2581", "\u2581a"};
    r.kinds = types{2, 3, 3, 1, 1, 1};
    r.scores = std::vector<float>{0, 0, 0, -1, -2, -3};
    return r;
}

result<std::shared_ptr<const tokenizer>> build(const recipe& r) {
    gguf_builder w;
    if (r.model) w.set("tokenizer.ggml.model", *r.model);
    if (r.pre) w.set("tokenizer.ggml.pre", *r.pre);
    if (r.tokens) w.set_array("tokenizer.ggml.tokens", *r.tokens);
    if (r.kinds) w.set_array("tokenizer.ggml.token_type", *r.kinds);
    if (r.merges) w.set_array("tokenizer.ggml.merges", *r.merges);
    if (r.scores) w.set_array("tokenizer.ggml.scores", *r.scores);
    for (const auto& [key, value] : r.numbers) w.set("tokenizer.ggml." + key, value);
    const auto bytes = w.bytes();
    const auto file = gguf_file::parse(bytes);
    if (!file) return file.error();
    // The tokenizer must not keep views into the file: `bytes` is gone when the caller uses it.
    return tokenizer::load(**file);
}

void expect_error(const recipe& r, errc code, const std::string& part) {
    const auto words = build(r);
    ASSERT_FALSE(words.ok()) << "accepted; expected: " << part;
    EXPECT_EQ(words.error().code, code) << words.error().message;
    EXPECT_NE(words.error().message.find(part), std::string::npos) << words.error().message;
}

TEST(tokenizer_file, the_recipes_are_good) {
    const auto bpe = build({});
    ASSERT_TRUE(bpe.ok()) << bpe.error().message;
    EXPECT_EQ((*bpe)->encode("abba<|end|>", true, false), (ids{2, 1, 0, 3}));
    EXPECT_EQ((*bpe)->type_name(), "bpe");
    const auto words = build(spm());
    ASSERT_TRUE(words.ok()) << words.error().message;
    EXPECT_EQ((*words)->encode("a a", true, true), (ids{1, 5, 5}));
    EXPECT_EQ((*words)->type_name(), "spm");
    EXPECT_EQ((*words)->pre_name(), "default");
}

TEST(tokenizer_file, model_missing_or_unknown) {
    recipe r;
    r.model.reset();
    expect_error(r, errc::model_malformed, "no tokenizer.ggml.model");
    r.model = "t5";
    expect_error(r, errc::model_unsupported, "unsupported tokenizer 't5'");
}

TEST(tokenizer_file, pre_tokenizer_missing_or_unknown) {
    recipe r;
    r.pre.reset();
    expect_error(r, errc::model_unsupported, "does not name its pre-tokenizer");
    for (const auto* name : {"superbpe", "kimi-k2", "", "GPT-2"}) {
        r.pre = name;
        expect_error(
            r, errc::model_unsupported, "unsupported pre-tokenizer '" + std::string(name) + "'; supported are default");
    }
}

TEST(tokenizer_file, tokens_missing_or_none) {
    recipe r;
    r.tokens.reset();
    expect_error(r, errc::model_malformed, "has no tokens");
    r.tokens = strings{};
    expect_error(r, errc::model_malformed, "has no tokens");
}

TEST(tokenizer_file, type_array_of_wrong_length_or_value) {
    recipe r;
    r.kinds = types{1, 1, 1};
    expect_error(r, errc::model_malformed, "token_type has 3 entries for 4 tokens");
    r.kinds = types{1, 1, 1, 3, 1};
    expect_error(r, errc::model_malformed, "token_type has 5 entries for 4 tokens");
    for (const auto type : {0, 7, -1, std::numeric_limits<std::int32_t>::max()}) {
        r.kinds = types{1, type, 1, 3};
        expect_error(r, errc::model_malformed, "token 1 has type " + std::to_string(type));
    }
}

TEST(tokenizer_file, score_array_missing_of_wrong_length_or_not_a_number) {
    auto r = spm();
    r.scores->pop_back();
    expect_error(r, errc::model_malformed, "scores has 5 entries for 6 tokens");
    r.scores->push_back(std::numeric_limits<float>::quiet_NaN());
    expect_error(r, errc::model_malformed, "not a number");
    r.scores.reset();
    expect_error(r, errc::model_malformed, "needs tokenizer.ggml.scores");
}

TEST(tokenizer_file, special_ids_beyond_the_vocabulary) {
    for (const auto* key : {"bos_token_id", "eos_token_id", "unknown_token_id", "padding_token_id", "eot_token_id",
             "eom_token_id", "seperator_token_id", "fim_pre_token_id"}) {
        for (const std::uint32_t id : {4u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
            recipe r;
            r.numbers = {{key, id}};
            expect_error(r, errc::model_malformed, std::string(key) + " " + std::to_string(id));
        }
    }
}

TEST(tokenizer_file, merges_missing_or_unsound) {
    recipe r;
    r.merges = strings{"a b", "ab"};
    expect_error(r, errc::model_malformed, "merge 1 is no pair");
    r.merges = strings{"a b", ""};
    expect_error(r, errc::model_malformed, "merge 1 is no pair");
    r.merges = strings{"a c"};
    expect_error(r, errc::model_malformed, "merge 0 names a token the vocabulary does not have");
    r.merges = strings{"c a"};
    expect_error(r, errc::model_malformed, "merge 0 names a token the vocabulary does not have");
    r.merges = strings{"b a"};
    expect_error(r, errc::model_malformed, "merge 0 names a token the vocabulary does not have");
    r.merges.reset();
    expect_error(r, errc::model_malformed, "needs tokenizer.ggml.merges");
}

TEST(tokenizer_file, merges_that_make_a_control_token) {
    recipe r;
    r.kinds = types{1, 1, 3, 3};
    expect_error(r, errc::model_malformed, "merge 0 makes a control token");
}

TEST(tokenizer_file, byte_tokens_that_name_no_byte) {
    for (const auto* text : {"<0xZZ>", "x", "", "<0x1>", "<0x100>"}) {
        auto r = spm();
        r.tokens->push_back(text);
        r.kinds->push_back(6);
        r.scores->push_back(0);
        expect_error(r, errc::model_malformed, "byte token 6 does not name a byte");
    }
}

TEST(tokenizer_file, unknown_bytes_become_the_unknown_token_or_nothing) {
    recipe r;
    EXPECT_EQ((*build(r))->encode("azb", false, false), (ids{0, 1}));
    r.numbers = {{"unknown_token_id", 3}};
    EXPECT_EQ((*build(r))->encode("azb", false, false), (ids{0, 3, 1}));
    EXPECT_EQ((*build(spm()))->encode("a\u00e9a", false, false), (ids{5, 0, 3}));
}

TEST(tokenizer_file, end_names_count_by_stored_type) {
    recipe r;
    r.tokens = strings{"<|im_end|>", "<|eot_id|>", "</s>", "<end_of_turn>", "</s>x"};
    r.merges = strings{};
    r.kinds = types{1, 3, 4, 4, 1};
    const auto words = build(r);
    ASSERT_TRUE(words.ok()) << words.error().message;
    const auto ends = (*words)->end_tokens();
    EXPECT_EQ(ids(ends.begin(), ends.end()), (ids{1, 3}));
    // A user-defined token that ends a turn is nothing a user may write.
    const std::vector<text_part> chat = {{"<end_of_turn>", true}, {"</s>", true}, {"<end_of_turn>", false}};
    EXPECT_EQ((*words)->encode(chat), (ids{2, 3}));
}

TEST(tokenizer_file, metadata_names_end_tokens_whatever_their_text) {
    recipe r;
    r.numbers = {{"eos_token_id", 0}, {"eot_token_id", 1}, {"eom_token_id", 2}};
    const auto words = build(r);
    ASSERT_TRUE(words.ok()) << words.error().message;
    const auto ends = (*words)->end_tokens();
    EXPECT_EQ(ids(ends.begin(), ends.end()), (ids{0, 1, 2, 3}));
}

}  // namespace

}  // namespace troupe::model::testing
