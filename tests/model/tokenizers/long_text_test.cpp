// Long texts take the paths that short ones do not (remembered pieces, the merge heap): their ids must be those of
// their parts.
#include <algorithm>

#include "tests/model/tokenizers/tokenizer_data.hpp"

namespace troupe::model::testing {

namespace {

class long_text : public ::testing::TestWithParam<const char*> {};

/// Starts with a space and ends with a full stop, so that nothing merges across repetitions. Different words outnumber
/// the entries of the cache, and the word number makes many of them collide.
std::string sentence(int number) {
    const auto word = std::to_string(number);
    return " The harbour of Anna" + word + " lay quiet (seven, t\u00f6day) under antidisestablishmentarianism" + word +
           "x, \u4f60\u597d \U0001f600.";
}

TEST_P(long_text, has_the_ids_of_its_sentences) {
    const auto words = load(GetParam());
    ASSERT_NE(words, nullptr);
    std::string text;
    ids expected;
    for (int i = 0; i < 2000; ++i) {
        const auto next = sentence(i * 7 % 1900);
        text += next;
        const auto tokens = words->encode(next, false, false);
        expected.insert(expected.end(), tokens.begin(), tokens.end());
    }
    const auto tokens = words->encode(text, false, false);
    ASSERT_EQ(tokens.size(), expected.size());
    EXPECT_TRUE(tokens == expected);
    EXPECT_EQ(pieces_of(*words, tokens), text);
}

INSTANTIATE_TEST_SUITE_P(vocabularies, long_text,
    ::testing::Values("smollm2", "gemma-3", "llama-bpe", "gpt-2", "qwen2", "deepseek-llm", "deepseek-coder"),
    case_name);

}  // namespace

}  // namespace troupe::model::testing
