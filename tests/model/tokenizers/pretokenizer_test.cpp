// Pre-tokenizers against the regular expressions they stand for, run by PCRE2, on the corpus and on random text.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/tokenizers/pretokenizer.hpp"

#include <pcre2.h>

#include <random>

#include "tests/model/tokenizers/tokenizer_data.hpp"

namespace troupe::model::testing {

namespace {

using pieces = std::vector<std::string>;

/// Splits each piece at the matches of `pattern`; what is not matched stays as pieces of its own.
pieces split_by(const std::string& pattern, const pieces& input) {
    int code = 0;
    PCRE2_SIZE at = 0;
    auto* regex = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
        PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY, &code, &at, nullptr);
    EXPECT_NE(regex, nullptr) << "at " << at << " of " << pattern;
    auto* match = pcre2_match_data_create_from_pattern(regex, nullptr);
    pieces output;
    for (const auto& piece : input) {
        std::size_t done = 0;
        const auto* subject = reinterpret_cast<PCRE2_SPTR>(piece.data());
        while (done < piece.size() && pcre2_match(regex, subject, piece.size(), done, 0, match, nullptr) > 0) {
            const auto* found = pcre2_get_ovector_pointer(match);
            if (found[0] > done) output.push_back(piece.substr(done, found[0] - done));
            output.push_back(piece.substr(found[0], found[1] - found[0]));
            done = found[1];
        }
        if (done < piece.size()) output.push_back(piece.substr(done));
    }
    pcre2_match_data_free(match);
    pcre2_code_free(regex);
    return output;
}

struct reference {
    const char* name;
    std::vector<std::string> patterns;  ///< one after the other, each on the pieces of the last
};

// \s of PCRE2 with UCP is not quite the White_Space property (it has U+180E), so the property is spelled out.
#define SPACE R"(\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})"
#define OTHER "[^" SPACE R"(\p{L}\p{N}])"
#define SPACE_RUN "[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"
#define GPT2 R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?)" OTHER "+|" SPACE_RUN
#define TIKTOKEN(digits)                                                                                               \
    R"('[sStTmMdD]|'[rR][eE]|'[vV][eE]|'[lL][lL]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,)" digits "}| ?" OTHER               \
    R"(+[\r\n]*|[)" SPACE R"(]*[\r\n]+|)" SPACE_RUN

#define TIKTOKEN_WITH_MARKS                                                                                            \
    R"('[sStTmMdD]|'[rR][eE]|'[vV][eE]|'[lL][lL]|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^)" SPACE                    \
    R"(\p{L}\p{M}\p{N}]+[\r\n]*|[)" SPACE R"(]*[\r\n]+|)" SPACE_RUN
#define CASED(suffix, digits)                                                                                          \
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" suffix                           \
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" suffix R"(|\p{N}{1,)" digits    \
    "}| ?" OTHER R"(+[\r\n/]*|[)" SPACE R"(]*[\r\n]+|)" SPACE_RUN
#define CONTRACTION "('[sStTmMdD]|'[rR][eE]|'[vV][eE]|'[lL][lL])?"

const std::vector<reference>& references() {
    static const std::vector<reference> all = {
        {"gpt-2", {GPT2}},
        {"smollm", {R"(\p{N})", GPT2}},
        {"llama-bpe", {TIKTOKEN("3")}},
        {"qwen2", {TIKTOKEN("1")}},
        {"falcon", {R"([\p{P}$+<=>^~|`]+)", GPT2, "[0-9][0-9][0-9]"}},
        {"default", {R"([\p{P}$+<=>^~|]+)", GPT2, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
        {"qwen35", {TIKTOKEN_WITH_MARKS}},
        {"gpt-4o", {CASED(CONTRACTION, "3")}},
        {"tekken", {CASED("", "1")}},
        {"deepseek-coder", {R"([\r\n])", "[" SPACE R"(]?\p{L}+)", "[" SPACE R"(]?\p{P}+)",
                               R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)", R"(\p{N})"}},
    };
    return all;
}

pieces split(const pretokenizer& pre, const std::string& text) {
    std::vector<std::uint32_t> ends;
    std::vector<std::uint32_t> scratch;
    pre.split(text, ends, scratch);
    pieces output;
    std::size_t begin = 0;
    for (const auto end : ends) {
        EXPECT_LT(begin, end);
        output.push_back(text.substr(begin, end - begin));
        begin = end;
    }
    EXPECT_EQ(begin, text.size());
    return output;
}

void expect_same(const reference& expected, const std::string& text) {
    const auto* pre = pretokenizer::find(expected.name);
    ASSERT_NE(pre, nullptr) << expected.name;
    pieces wanted;
    if (!text.empty()) wanted = {text};
    for (const auto& pattern : expected.patterns) wanted = split_by(pattern, wanted);
    ASSERT_EQ(split(*pre, text), wanted) << expected.name;
}

TEST(pretokenizer, splits_the_corpus_like_the_regular_expressions) {
    for (const auto& expected : references())
        for (const auto& [id, text] : corpus())
            if (!id.starts_with("invalid")) expect_same(expected, text);
}

TEST(pretokenizer, splits_random_text_like_the_regular_expressions) {
    const std::vector<std::string> alphabet = {" ", " ", "  ", "\n", "\r\n", "\t", "\v", "a", "Z", "re", "'", "'s",
        "'LL", "7", "42", ".", "!?", "_", "$", "\u00e9", "\u00df", "\u4e2d", "\u3042", "\ud55c", "\u0915", "\u093f",
        "\u0665", "\u00bd", "\u2167", "\u00a0", "\u3000", "\u2028", "\u200b", "\u180e", "\u00ab", "\uff01",
        "\U0001f600", "\U00010400", "\u0301", "ABC", "/", "\u01c5", "\u02b0", "123", "`", "b", "C"};
    std::mt19937 random(7);
    for (int round = 0; round < 1500; ++round) {
        std::string text;
        for (unsigned i = 0; i < 1 + random() % 25; ++i) text += alphabet[random() % alphabet.size()];
        for (const auto& expected : references()) expect_same(expected, text);
        if (HasFailure()) return;
    }
}

TEST(pretokenizer, deepseek_llm_splits_trailing_space_off) {
    const auto* pre = pretokenizer::find("deepseek-llm");
    ASSERT_NE(pre, nullptr);
    EXPECT_EQ(split(*pre, "ab \u00ac\u00ac  "), (pieces{"ab", " \u00ac\u00ac", "  "}));
    EXPECT_EQ(split(*pre, "  \u00ac x"), (pieces{"  \u00ac", " x"}));
    EXPECT_EQ(split(*pre, "\u4e2d12 \n\n"), (pieces{"\u4e2d", "12", " ", "\n", "\n"}));
}

TEST(pretokenizer, unknown_names_are_not_found) {
    EXPECT_EQ(pretokenizer::find("superbpe"), nullptr);
    EXPECT_EQ(pretokenizer::find(""), nullptr);
    EXPECT_NE(pretokenizer::known_names().find("smollm"), std::string::npos);
}

}  // namespace

}  // namespace troupe::model::testing
