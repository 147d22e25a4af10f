// The matcher against a plain reading of its rule: token by token, longest first, over the text that is still free.
#include "model/tokenizers/special_matcher.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>

namespace troupe::model {

namespace {

bool all_trusted(std::span<const text_stretch> stretches, std::size_t begin, std::size_t end) {
    std::size_t start = 0;
    for (const auto& stretch : stretches) {
        if (!stretch.trusted && start < end && stretch.end > begin) return false;
        start = stretch.end;
    }
    return true;
}

std::vector<special_match> plain_rule(
    std::vector<special_token> tokens, std::string_view text, std::span<const text_stretch> stretches) {
    std::stable_sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) {
        return a.text.size() != b.text.size() ? a.text.size() > b.text.size() : a.id < b.id;
    });
    std::vector<bool> taken(text.size());
    std::vector<special_match> matches;
    for (const auto& token : tokens) {
        const auto size = token.text.size();
        for (std::size_t at = 0; at + size <= text.size(); ++at) {
            if (text.substr(at, size) != token.text) continue;
            if (std::find(taken.begin() + at, taken.begin() + at + size, true) != taken.begin() + at + size) continue;
            if (token.trusted_only && !all_trusted(stretches, at, at + size)) continue;
            std::fill_n(taken.begin() + at, size, true);
            matches.push_back({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at + size), token.id});
        }
    }
    std::sort(matches.begin(), matches.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
    return matches;
}

void expect_same(
    const std::vector<special_token>& tokens, std::string_view text, std::span<const text_stretch> stretches) {
    const auto found = special_matcher(tokens).find(text, stretches);
    const auto expected = plain_rule(tokens, text, stretches);
    ASSERT_EQ(found.size(), expected.size()) << text;
    for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].begin, expected[i].begin) << text;
        EXPECT_EQ(found[i].end, expected[i].end) << text;
        EXPECT_EQ(found[i].id, expected[i].id) << text;
    }
}

TEST(special_matcher, agrees_with_the_plain_rule_on_random_text) {
    std::mt19937 random(20261130);
    const auto below = [&](unsigned n) { return random() % n; };
    const auto letters = [&](unsigned length) {
        std::string word;
        for (unsigned i = 0; i < length; ++i) word += static_cast<char>('a' + below(2));
        return word;
    };
    for (int round = 0; round < 3000; ++round) {
        std::vector<std::string> texts;
        for (unsigned i = 0; i < 1 + below(5); ++i) texts.push_back(letters(1 + below(6)));
        std::sort(texts.begin(), texts.end());
        texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
        std::vector<special_token> tokens;
        for (const auto& text : texts)
            tokens.push_back({text, static_cast<std::int32_t>(tokens.size()), below(2) == 0});
        const auto text = letters(1 + below(30));
        std::vector<text_stretch> stretches;
        bool trusted = below(2) == 0;
        for (std::uint32_t end = 0; end < text.size(); trusted = !trusted) {
            end = std::min<std::uint32_t>(end + 1 + below(12), static_cast<std::uint32_t>(text.size()));
            stretches.push_back({end, trusted});
        }
        expect_same(tokens, text, stretches);
        if (HasFailure()) return;
    }
}

TEST(special_matcher, longest_first_over_the_whole_text) {
    const std::vector<special_token> tokens = {{"ab", 1}, {"bcd", 2}, {"", 3}};
    const text_stretch all[] = {{4, true}};
    const auto found = special_matcher(tokens).find("abcd", all);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].id, 2);
}

TEST(special_matcher, control_tokens_must_lie_in_trusted_text_whole) {
    const std::vector<special_token> tokens = {{"<|end|>", 7, true}};
    const text_stretch stretches[] = {{4, true}, {7, false}, {14, true}};
    const auto found = special_matcher(tokens).find("<|end|><|end|>", stretches);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].begin, 7u);
}

TEST(special_matcher, no_tokens_no_matches) {
    const text_stretch all[] = {{4, true}};
    EXPECT_TRUE(special_matcher().find("abcd", all).empty());
    EXPECT_TRUE(special_matcher(std::vector<special_token>{}).find("abcd", all).empty());
}

}  // namespace

}  // namespace troupe::model
