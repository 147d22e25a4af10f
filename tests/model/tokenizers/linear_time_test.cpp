// Adversarial texts: sixteen times the text may cost some sixteen times the time (n log n, plus caches and noise), and
// nothing recurses by the length of the text.
#include <time.h>

#include <algorithm>

#include "tests/model/tokenizers/tokenizer_data.hpp"

namespace troupe::model::testing {

namespace {

std::string repeated(std::string_view unit, std::size_t bytes) {
    std::string text;
    text.reserve(bytes + unit.size());
    while (text.size() < bytes) text += unit;
    return text;
}

/// Of this thread alone: other processes share the machine.
double cpu_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds_of(const tokenizer& words, const std::string& text) {
    const auto start = cpu_seconds();
    const auto tokens = words.encode(text, true, false);
    const auto taken = cpu_seconds() - start;
    EXPECT_FALSE(tokens.empty());
    return taken;
}

class linear_time : public ::testing::TestWithParam<const char*> {};

TEST_P(linear_time, in_the_length_of_the_text) {
    const auto words = load(GetParam());
    ASSERT_NE(words, nullptr);
    const std::vector<std::string> units = {"a", " ", "\n", "\t ", " \n", "7", "'", "\u4e2d", "\U0001f600", "\u2581",
        "<", "<|", "a ", "\u00ac", "=-", "\u0301", "\r", "<|im_end|>"};
    constexpr std::size_t small = 1 << 12;
    constexpr double most = 120;  // leaving the caches costs a factor of 3 or 4; quadratic growth would be 256
    for (const auto& unit : units) {
        double ratio = 2 * most;
        for (int attempt = 0; attempt < 8 && ratio > most; ++attempt) {
            const auto once = seconds_of(*words, repeated(unit, small));
            ratio = std::min(ratio, seconds_of(*words, repeated(unit, 16 * small)) / once);
        }
        EXPECT_LT(ratio, most) << "repeated " << unit;
    }
}

/// A megabyte of one thing: four times the text takes about four times the time, also where it is decoded again.
TEST_P(linear_time, a_megabyte_of_one_character) {
    const auto words = load(GetParam());
    ASSERT_NE(words, nullptr);
    for (const auto* unit : {"a", " ", "\U0001f600", "\u0301", "\u4e2d"}) {
        constexpr std::size_t small = 1 << 18;
        constexpr double most = 12;  // quadratic growth would be 16
        double ratio = 2 * most;
        for (int attempt = 0; attempt < 3 && ratio > most; ++attempt) {
            const auto once = seconds_of(*words, repeated(unit, small));
            ratio = std::min(ratio, seconds_of(*words, repeated(unit, 4 * small)) / once);
        }
        EXPECT_LT(ratio, most) << "repeated " << unit;
    }
    const auto text = repeated("\U0001f600", 1 << 20);
    const auto tokens = words->encode(text, false, false);
    const auto start = cpu_seconds();
    utf8_stream stream;
    std::string decoded;
    for (const auto id : tokens) decoded += stream.push(words->piece(id));
    decoded += stream.flush();
    EXPECT_LT(cpu_seconds() - start, 3);  // 0.05 s; quadratic growth would be minutes
    EXPECT_TRUE(decoded.ends_with(text));
}

TEST_P(linear_time, half_a_million_spaces_before_a_letter) {
    const auto words = load(GetParam());
    ASSERT_NE(words, nullptr);
    const auto text = repeated("\u00ac", 64) + std::string(1 << 19, ' ') + "\u00acx";
    auto tokens = words->encode(text, false, false);
    auto decoded = pieces_of(*words, tokens);
    if (decoded.size() == text.size() + 1) decoded.erase(0, 1);
    EXPECT_EQ(decoded, text);
}

INSTANTIATE_TEST_SUITE_P(vocabularies, linear_time,
    ::testing::Values(
        "smollm2", "gemma-3", "llama-bpe", "qwen2", "deepseek-llm", "deepseek-coder", "llama-spm", "gpt-2", "phi-3"),
    case_name);

}  // namespace

}  // namespace troupe::model::testing
