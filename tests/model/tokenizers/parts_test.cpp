// Rendered chats: control tokens count only where the template wrote them, words merge across the borders of parts, and
// there is exactly one BOS.
#include <algorithm>

#include "tests/model/tokenizers/tokenizer_data.hpp"

namespace troupe::model::testing {

namespace {

class parts : public ::testing::TestWithParam<const char*> {
 protected:
    void SetUp() override {
        words_ = load(GetParam());
        ASSERT_NE(words_, nullptr);
    }

    bool is_control(token_id id) const {
        const auto kind = words_->kind(id);
        return kind == token_kind::control || kind == token_kind::unknown || words_->is_end(id) || id == words_->bos();
    }

    /// Texts of all tokens that only a template may write, at most `limit` of them.
    std::vector<std::string> control_strings(std::size_t limit) const {
        std::vector<std::string> texts;
        for (token_id id = 0; id < words_->n_tokens() && texts.size() < limit; ++id)
            if (is_control(id)) texts.emplace_back(words_->piece(id, true));
        return texts;
    }

    /// Without the BOS that encode() adds for templates that lack one.
    ids encode_user(const std::string& text) const {
        const text_part part{text, true};
        auto tokens = words_->encode(std::span(&part, 1));
        if (words_->add_bos()) {
            EXPECT_EQ(tokens.at(0), words_->bos());
            tokens.erase(tokens.begin());
        }
        return tokens;
    }

    /// SPM vocabularies with a space prefix give one more space than the text has.
    std::string without_prefix(const std::string& decoded, const std::string& text) const {
        return decoded.size() == text.size() + 1 && decoded[0] == ' ' ? decoded.substr(1) : decoded;
    }

    std::shared_ptr<const tokenizer> words_;
};

TEST_P(parts, user_text_never_becomes_a_control_token) {
    const auto texts = control_strings(8000);
    ASSERT_FALSE(texts.empty());
    for (const auto& control : texts) {
        for (const auto& text : {control, "x" + control + "y", control + control, " " + control + "\n"}) {
            const auto tokens = encode_user(text);
            for (const auto id : tokens) ASSERT_FALSE(is_control(id)) << text << " gave " << id;
            ASSERT_EQ(without_prefix(pieces_of(*words_, tokens), text), text);
        }
    }
}

TEST_P(parts, template_text_does) {
    for (token_id id = 0; id < words_->n_tokens(); ++id) {
        if (words_->kind(id) != token_kind::control) continue;
        const text_part part{std::string(words_->piece(id, true)), false};
        auto tokens = words_->encode(std::span(&part, 1));
        if (words_->add_bos() && id != words_->bos()) tokens.erase(tokens.begin());
        ASSERT_EQ(tokens, ids{id}) << part.text;
    }
}

TEST_P(parts, a_control_string_split_over_parts_stays_text) {
    for (const auto& control : control_strings(50)) {
        if (control.size() < 2) continue;
        const auto half = control.size() / 2;
        const std::vector<text_part> halves[] = {
            {{control.substr(0, half), false}, {control.substr(half), true}},
            {{control.substr(0, half), true}, {control.substr(half), false}},
            {{control.substr(0, half), true}, {control.substr(half), true}},
        };
        for (const auto& chat : halves) {
            auto tokens = words_->encode(chat);
            if (words_->add_bos()) tokens.erase(tokens.begin());
            for (const auto id : tokens) ASSERT_FALSE(is_control(id)) << control;
        }
    }
}

TEST_P(parts, a_control_string_split_over_template_parts_is_one_token) {
    const auto control = control_strings(1).at(0);
    const std::vector<text_part> chat = {{control.substr(0, 1), false}, {"", true}, {control.substr(1), false}};
    const text_part whole{control, false};
    EXPECT_EQ(words_->encode(chat), words_->encode(std::span(&whole, 1)));
}

TEST_P(parts, borders_leave_no_trace_in_the_ids) {
    for (const auto& [id, text] : corpus()) {
        if (id.starts_with("invalid") || id.starts_with("markers")) continue;
        const auto whole = words_->encode(text, false, false);
        for (const std::size_t pieces : {2, 3}) {
            std::vector<text_part> chat;
            std::size_t begin = 0;
            for (std::size_t i = 1; i <= pieces; ++i) {
                auto end = text.size() * i / pieces;
                while (end < text.size() && (text[end] & 0xc0) == 0x80) ++end;
                chat.push_back({text.substr(begin, end - begin), i % 2 == 0});
                begin = end;
            }
            auto tokens = words_->encode(chat);
            if (words_->add_bos()) tokens.erase(tokens.begin());
            ASSERT_EQ(tokens, whole) << id;
        }
    }
}

TEST_P(parts, exactly_one_bos) {
    const auto count_bos = [&](const std::vector<text_part>& chat) {
        const auto tokens = words_->encode(chat);
        return std::count(tokens.begin(), tokens.end(), words_->bos());
    };
    ASSERT_GE(words_->bos(), 0);
    const std::string bos(words_->piece(words_->bos(), true));
    EXPECT_EQ(count_bos({{bos, false}, {"hello", true}}), 1);
    EXPECT_EQ(count_bos({{bos + bos, false}, {"hello", true}}), 1);
    EXPECT_EQ(count_bos({{bos, false}, {"", true}, {bos, false}, {bos, true}}), 1);
    EXPECT_EQ(count_bos({{"hello", true}}), words_->add_bos() ? 1 : 0);
    EXPECT_EQ(count_bos({{bos, true}}), words_->add_bos() ? 1 : 0);
    EXPECT_EQ(count_bos({}), words_->add_bos() ? 1 : 0);
}

TEST_P(parts, ill_formed_user_text_is_replaced) {
    EXPECT_EQ(pieces_of(*words_, encode_user("a\xff\xe2\x82")).substr(pieces_of(*words_, encode_user("a")).size()),
        "\ufffd\ufffd");
}

INSTANTIATE_TEST_SUITE_P(vocabularies, parts, ::testing::ValuesIn(vocabulary_names), case_name);

TEST(rendered_chat, smollm2) {
    const auto words = load("smollm2");
    ASSERT_NE(words, nullptr);
    const std::vector<text_part> chat = {
        {"<|im_start|>user\n", false}, {"Hi <|im_end|>", true}, {"<|im_end|>\n<|im_start|>assistant\n", false}};
    const auto tokens = words->encode(chat);
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 1), 2);
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 2), 1);
    EXPECT_EQ(pieces_of(*words, tokens), "<|im_start|>user\nHi <|im_end|><|im_end|>\n<|im_start|>assistant\n");
}

TEST(rendered_chat, gemma_3_joins_newlines_of_template_and_user) {
    const auto words = load("gemma-3");
    ASSERT_NE(words, nullptr);
    // "\n\n" is one user-defined token (108), also when one half comes from the user.
    const std::vector<text_part> chat = {
        {"<bos><start_of_turn>user\n", false}, {"\nHi", true}, {"<end_of_turn>\n", false}};
    EXPECT_EQ(words->encode(chat), words->encode("<bos><start_of_turn>user\n\nHi<end_of_turn>\n", true, false));
    const auto tokens = words->encode(chat);
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 108), 1);
}

TEST(rendered_chat, spm_space_prefix_follows_each_special_token) {
    const auto words = load("llama-spm");
    ASSERT_NE(words, nullptr);
    const std::vector<text_part> chat = {{"<s>", false}, {"hello", true}, {"</s><s>", false}, {"hello", true}};
    EXPECT_EQ(words->encode(chat), (ids{1, 22172, 2, 1, 22172}));
}

}  // namespace

}  // namespace troupe::model::testing
