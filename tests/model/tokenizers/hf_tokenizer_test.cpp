// tokenizer.json files of every style this build reads, against ids of the `tokenizers` package
// (tests/data/tokenizers/README.md), and the tokenizer of the tiny folders.
#include "model/formats/hf_tokenizer.hpp"

#include "model/tokenizer_keys.hpp"
#include "tests/model/tokenizers/tokenizer_data.hpp"
#include "tests/support/figures.hpp"

namespace troupe::model::testing {
namespace {

namespace dom = simdjson::dom;

/// Sets the keys of a tokenizer.json whose model has `n_vocab` tokens.
std::shared_ptr<const tokenizer> load_json(
    const std::string& text, std::int64_t n_vocab, const char* settings = R"({"bos_token":"<s>","eos_token":"</s>"})") {
    const auto document = detail::json_document::parse(text, "tokenizer.json");
    EXPECT_TRUE(document.ok()) << document.error().message;
    const auto more = detail::json_document::parse(settings, "tokenizer_config.json");
    if (!document || !more) return nullptr;
    detail::hf_config config;
    config.n_vocab = n_vocab;
    config.eos = {2, 5};
    assembled_file file;
    const auto done = detail::translate_tokenizer(**document, more->get(), config, file);
    EXPECT_TRUE(done.ok()) << done.error().message;
    if (!done) return nullptr;
    const auto words = tokenizer::load(file);
    EXPECT_TRUE(words.ok()) << words.error().message;
    return words ? *words : nullptr;
}

TEST(hf_tokenizer, every_style_gives_the_ids_of_the_tokenizers_package) {
    dom::parser parser;
    const auto root = parser.load(data_path("hf-styles.json")).get_object().value();
    std::vector<std::string> texts;
    for (const auto text : root["texts"].get_array()) texts.emplace_back(text.get_string().value());
    for (const auto style : root["tokenizers"].get_array()) {
        const std::string name(style["name"].get_string().value());
        const auto words = load_json(simdjson::minify(style["tokenizer"]), 1000);
        ASSERT_TRUE(words) << name;
        std::size_t i = 0, right = 0;
        for (const auto expected : style["ids"].get_array()) {
            const auto got = words->encode(texts[i], true, true);
            EXPECT_EQ(got, to_ids(expected)) << name << ": '" << texts[i] << "'";
            right += got == to_ids(expected);
            ++i;
        }
        EXPECT_EQ(i, texts.size());
        troupe::testing::record_figure("tokenizer.json", name, fmt::format("{} of {} texts equal", right, i), "all");
    }
}

TEST(hf_tokenizer, the_tiny_folders_tokenizer) {
    dom::parser parser, samples;
    const std::string text(simdjson::padded_string::load(data_path("tiny-tokenizer.json")).value());
    const auto words = load_json(text, 320);
    ASSERT_TRUE(words);
    EXPECT_EQ(words->bos(), 1);
    EXPECT_FALSE(words->add_bos());
    EXPECT_TRUE(words->is_end(2) && words->is_end(5)) << "every id the configuration lists ends a generation";
    EXPECT_EQ(words->kind(1), token_kind::control);
    for (const auto sample : samples.load(data_path("tiny-tokenizer-samples.json")).get_array()) {
        const auto expected = to_ids(sample["ids"]);
        EXPECT_EQ(words->encode(sample["text"].get_string().value(), true, true), expected);
        EXPECT_EQ(pieces_of(*words, expected), sample["decoded"].get_string().value());
    }
}

TEST(hf_tokenizer, flags_of_rebuilt_classes_win_over_the_post_processor) {
    const std::string json = R"({"added_tokens":[{"id":0,"content":"<s>","special":true}],"pre_tokenizer":)"
                             R"({"type":"ByteLevel","add_prefix_space":false},"post_processor":{"type":"ByteLevel"},)"
                             R"("model":{"vocab":{"a":1},"merges":[]}})";
    const auto adds = [&](const char* settings) { return load_json(json, 8, settings)->add_bos(); };
    EXPECT_TRUE(adds(R"({"bos_token":{"content":"<s>"},"add_bos_token":true,"tokenizer_class":"LlamaTokenizerFast"})"));
    EXPECT_FALSE(adds(R"({"bos_token":"<s>","add_bos_token":true,"tokenizer_class":"PreTrainedTokenizerFast"})"));
}

}  // namespace
}  // namespace troupe::model::testing
