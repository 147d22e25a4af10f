#include "actors/session/answer_text.hpp"

#include <random>

#include <gtest/gtest.h>

#include "tests/actors/session/fake_vocabulary.hpp"

namespace troupe::actors {
namespace {

using testing::fake_vocabulary;

std::vector<accepted_token> bytes(const std::string& s) {
    std::vector<accepted_token> r;
    for (char c : s) r.push_back({static_cast<unsigned char>(c), -0.5f});
    return r;
}

TEST(AnswerText, NeverGivesHalfACodePoint) {
    answer_text t(std::make_shared<fake_vocabulary>(), {}, false);
    const std::string euro = "\xE2\x82\xAC";
    EXPECT_TRUE(t.feed(bytes(euro.substr(0, 1))).empty());
    EXPECT_TRUE(t.feed(bytes(euro.substr(1, 1))).empty());
    const auto p = t.feed(bytes(euro.substr(2) + "x"));
    EXPECT_EQ(p.text, euro + "x");
    EXPECT_EQ(p.offset, 0u);
    EXPECT_EQ(t.feed(bytes("y")).offset, 4u);
    EXPECT_EQ(t.n_tokens(), 5);
}

TEST(AnswerText, AnIncompleteCodePointAtTheEndIsReplaced) {
    answer_text t(std::make_shared<fake_vocabulary>(), {}, false);
    EXPECT_EQ(t.feed(bytes("a\xE2\x82")).text, "a");
    EXPECT_EQ(t.finish().text, "\xEF\xBF\xBD");
}

TEST(AnswerText, AStopStringOverTokenBordersNamesItsToken) {
    auto v = std::make_shared<fake_vocabulary>();
    const auto word = v->add("lo wor");
    answer_text t(v, {"low", "o w"}, false);
    auto tokens = bytes("hel");
    tokens.push_back({word});
    tokens.push_back({'x'});
    EXPECT_EQ(t.feed(tokens).text, "hell");
    EXPECT_EQ(t.stopped_at(), 4);
    EXPECT_TRUE(t.finish().empty());
    EXPECT_TRUE(t.feed(bytes("more")).empty());
    EXPECT_EQ(t.n_tokens(), 4);
}

TEST(AnswerText, LogprobsComeWithTheBytesTheyStandFor) {
    answer_text t(std::make_shared<fake_vocabulary>(), {"zz"}, true);
    auto p = t.feed(bytes("a\xC3"));
    EXPECT_EQ(p.text, "a");
    ASSERT_EQ(p.logprobs.size(), 1u);
    p = t.feed(bytes("\xA4z"));
    EXPECT_EQ(p.text, "\xC3\xA4");
    ASSERT_EQ(p.logprobs.size(), 2u);
    EXPECT_EQ(p.logprobs[0].token.bytes, "\xC3");
    p = t.feed(bytes("z"));
    EXPECT_TRUE(p.empty()) << "the stop string's tokens are not part of the answer";
    EXPECT_TRUE(t.finish().empty());
}

TEST(AnswerText, WholeTextIsTheSumOfThePiecesWhateverTheBatches) {
    std::mt19937 rng(11);
    for (int round = 0; round < 300; ++round) {
        std::string raw;
        for (int i = 0; i < 40; ++i)
            raw += rng() % 3 ? static_cast<char>('a' + rng() % 4) : static_cast<char>(rng() % 256);
        model::utf8_stream whole;
        std::string want = whole.push(raw);
        want += whole.flush();
        if (const auto at = want.find("ab"); at != std::string::npos) want.resize(at);
        answer_text t(std::make_shared<fake_vocabulary>(), {"ab"}, true, 5);
        std::string got;
        const auto add = [&](answer_text::piece p) {
            ASSERT_EQ(p.offset, 5 + got.size());
            got += p.text;
        };
        for (std::size_t at = 0; at < raw.size();) {
            const std::size_t n = 1 + rng() % 5;
            add(t.feed(bytes(raw.substr(at, n))));
            at += n;
        }
        add(t.finish());
        ASSERT_EQ(got, want) << "round " << round;
    }
}

}  // namespace
}  // namespace troupe::actors
