#include "actors/session/stop_strings.hpp"

#include <random>

#include <gtest/gtest.h>

namespace troupe::actors {
namespace {

struct truth {
    std::string text;
    bool matched = false;
};

/// Reads the text byte by byte: the first byte that completes a stop string ends it, before the longest of those that
/// do.
truth naive(const std::string& text, const std::vector<std::string>& stops) {
    for (std::size_t end = 1; end <= text.size(); ++end) {
        std::size_t longest = 0;
        for (const auto& s : stops)
            if (s.size() <= end && text.compare(end - s.size(), s.size(), s) == 0)
                longest = std::max(longest, s.size());
        if (longest) return {text.substr(0, end - longest), true};
    }
    return {text, false};
}

/// The longest end of `text` that may still become a stop string.
std::size_t naive_held(const std::string& text, const std::vector<std::string>& stops) {
    for (std::size_t n = text.size(); n > 0; --n)
        for (const auto& s : stops)
            if (n < s.size() && text.compare(text.size() - n, n, s, 0, n) == 0) return n;
    return 0;
}

std::string random_text(std::mt19937& rng, std::size_t n) {
    std::string s;
    for (std::size_t i = 0; i < n; ++i) s += static_cast<char>('a' + rng() % 3);
    return s;
}

TEST(StopStrings, AgreesWithTheNaiveReaderHoweverTheTextIsSplit) {
    std::mt19937 rng(7);
    for (int round = 0; round < 3000; ++round) {
        std::vector<std::string> stops;
        for (std::size_t i = 0, n = 1 + rng() % 4; i < n; ++i) stops.push_back(random_text(rng, 1 + rng() % 6));
        const std::string text = random_text(rng, rng() % 60);
        const auto want = naive(text, stops);
        stop_strings matcher(stops);
        std::string got;
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t n = 1 + rng() % 7;
            got += matcher.push(text.substr(at, n));
            at += n;
            if (matcher.matched()) break;
            const std::string seen = text.substr(0, at);
            ASSERT_EQ(got.size(), seen.size() - naive_held(seen, stops))
                << "held back too much or too little, round " << round;
        }
        got += matcher.flush();
        ASSERT_EQ(got, want.text) << "round " << round << " text " << text;
        ASSERT_EQ(matcher.matched(), want.matched) << "round " << round;
    }
}

TEST(StopStrings, NothingFollowsAMatch) {
    stop_strings m({"END"});
    EXPECT_EQ(m.push("one EN"), "one ");
    EXPECT_EQ(m.push("D two"), "");
    EXPECT_TRUE(m.matched());
    EXPECT_EQ(m.push("three"), "");
    EXPECT_EQ(m.flush(), "");
}

TEST(StopStrings, WithoutAnyTextPassesAtOnce) {
    stop_strings m({});
    EXPECT_EQ(m.push("abc"), "abc");
    EXPECT_FALSE(m.matched());
}

}  // namespace
}  // namespace troupe::actors
