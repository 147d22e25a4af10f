// Token masks: for random grammars the mask must be exactly the tokens whose bytes the grammar follows, at every place
// a random walk gets to.
#include <chrono>
#include <random>

#include "tests/model/grammar/support.hpp"

namespace troupe::model::testing {
namespace {

/// A random expression of the notation over a small alphabet (multi-byte characters included).
class grammar_maker {
 public:
    explicit grammar_maker(std::uint64_t seed) : random_(seed) {}
    std::string grammar() {
        std::string g = "root ::= " + expression(3) + "\n";
        for (int r = 0; r < 3; ++r) g += "r" + std::to_string(r) + " ::= " + literal() + " " + expression(2) + "\n";
        return g;
    }
    std::size_t below(std::size_t n) { return random_() % n; }

 private:
    std::string literal() {
        static const std::vector<std::string> words{"a", "b", "ab", "\u00e9", "\u20ac", "\U0001f600", "ba", "c"};
        return "\"" + words[below(words.size())] + "\"";
    }
    std::string expression(int depth) {
        const auto inner = [&] { return depth == 0 ? literal() : expression(depth - 1); };
        switch (below(9)) {
        case 0:
            return "(" + inner() + " | " + inner() + ")";
        case 1:
            return "(" + inner() + ")*";
        case 2:
            return "(" + inner() + ")" + std::vector<std::string>{"?", "+", "{2}", "{1,3}", "{2,}", "{0,5}"}[below(6)];
        case 3:
            return "[a-c\u00e0-\u00ff]";
        case 4:
            return "[^a\u00e9]";
        case 5:
            return "r" + std::to_string(below(3)) + " " + inner();
        case 6:
            return literal();
        default:
            return inner() + " " + inner();
        }
    }
    std::mt19937_64 random_;
};

const std::vector<std::string> pieces{"aa", "ab", "abc", "ba", "bab", "ca", "\u00e9", "\u00e9a", "a\u00e9", "\xc3",
    "\xa9", "\xe2\x82", "\xac", "\xf0\x9f", "\x98\x80", "\u20ac\u20ac", "aaaa", "\xff", "", "abab", "aa",
    "\xa9"
    "a"};

/// The oracle: a token is allowed if a copy of the place follows it.
token_mask simulated(const constraint_cursor& at, const std::vector<std::string>& vocabulary) {
    token_mask m(vocabulary.size());
    for (std::size_t id = 0; id < vocabulary.size(); ++id) {
        auto copy = at;
        if (!vocabulary[id].empty() && copy.accept(vocabulary[id])) m.set(id);
    }
    return m;
}

TEST(constraint, masks_equal_the_simulation_of_every_token) {
    const auto vocabulary = byte_vocabulary(pieces);
    const auto trie = trie_of(vocabulary);
    int masks = 0, grammars = 0, ends = 0;
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
        grammar_maker make(seed);
        const auto source = make.grammar();
        auto compiled = constraint::compile(source, trie);
        if (!compiled) continue;  // left-recursive or without end: refused, which the other tests cover
        ++grammars;
        for (int walk = 0; walk < 3; ++walk) {
            constraint_cursor at(*compiled);
            for (int step = 0; step < 12; ++step) {
                token_mask mask;
                ASSERT_TRUE(at.mask(mask).ok()) << source;
                ASSERT_EQ(mask, simulated(at, vocabulary)) << source;
                ++masks;
                std::vector<token_id> allowed;
                for (std::size_t id = 0; id < vocabulary.size(); ++id)
                    if (mask.test(id)) allowed.push_back(static_cast<token_id>(id));
                if (allowed.empty()) {
                    EXPECT_TRUE(at.accepting().value()) << "a place that leads nowhere: " << source;
                    ++ends;
                    break;
                }
                ASSERT_TRUE(at.accept(allowed[make.below(allowed.size())]).ok()) << source;
            }
        }
    }
    EXPECT_GT(grammars, 200);
    EXPECT_GT(masks, 3000);
    EXPECT_GT(ends, 20);
}

TEST(constraint, counted_loops_are_exact_near_and_far_from_their_ends) {
    const auto vocabulary = byte_vocabulary({"aaa", "aaaaaaaa", "aab", "a\"", "aaaa\"", "\u00e9\u00e9"});
    auto compiled =
        constraint::compile("root ::= \"<\" [a\u00e9]{20,60} \"\\\"\" x\nx ::= [a-b]{30,} \"!\"", trie_of(vocabulary));
    ASSERT_TRUE(compiled.ok());
    constraint_cursor at(*compiled);
    ASSERT_TRUE(at.accept("<").ok());
    const auto check = [&] {
        token_mask mask;
        ASSERT_TRUE(at.mask(mask).ok());
        ASSERT_EQ(mask, simulated(at, vocabulary));
    };
    for (int n = 0; n < 60; ++n) {
        check();
        ASSERT_TRUE(at.accept("a").ok());
    }
    check();
    ASSERT_FALSE(at.accept("a").ok());
    ASSERT_TRUE(at.accept("\"").ok());
    for (int n = 0; n < 40; ++n) {
        check();
        ASSERT_TRUE(at.accept("b").ok());
    }
    ASSERT_TRUE(at.accept("!").ok());
    EXPECT_TRUE(at.accepting().value());
}

TEST(constraint, a_token_that_is_not_allowed_leaves_the_cursor_where_it_was) {
    const auto vocabulary = byte_vocabulary({"ab"});
    auto compiled = constraint::compile("root ::= \"ab\"", trie_of(vocabulary));
    ASSERT_TRUE(compiled.ok());
    constraint_cursor at(*compiled);
    const auto bad = at.accept(token_id{'b'});
    ASSERT_FALSE(bad.ok());
    EXPECT_EQ(bad.error().code, errc::constraint_failed);
    EXPECT_TRUE(at.accept(token_id{256}).ok());
    EXPECT_TRUE(at.accepting().value());
    token_mask mask;
    ASSERT_TRUE(at.mask(mask).ok());
    EXPECT_FALSE(mask.any()) << "nothing can follow";
}

TEST(constraint, a_vocabulary_that_cannot_write_the_text_gives_an_empty_mask) {
    auto compiled = constraint::compile("root ::= \"xyz\"", trie_of({"x", "y", "a"}));
    ASSERT_TRUE(compiled.ok());
    constraint_cursor at(*compiled);
    ASSERT_TRUE(at.accept("xy").ok());
    token_mask mask;
    ASSERT_TRUE(at.mask(mask).ok());
    EXPECT_FALSE(mask.any());
    EXPECT_FALSE(at.accepting().value());
}

TEST(constraint, too_much_ambiguity_is_a_typed_error_and_the_grammar_lives_on) {
    // Every way of cutting the text into counted pieces is a reading of its own.
    std::string g = "root ::= (";
    for (int i = 0; i < 60; ++i) g += (i ? " | " : "") + ("([a-z]{2," + std::to_string(i + 200) + "}){1,900}");
    auto compiled = constraint::compile(g + ") \"!\"", trie_of(byte_vocabulary({})));
    ASSERT_TRUE(compiled.ok());
    constraint_cursor at(*compiled);
    result<void> r;
    for (int n = 0; n < 400 && r; ++n) r = at.accept("a");
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().code, errc::constraint_failed);
    constraint_cursor fresh(*compiled);
    EXPECT_TRUE(fresh.accept("aaa").ok());
}

TEST(constraint, right_recursion_does_not_grow) {
    auto compiled = constraint::compile("root ::= \"x\" root | \"y\"", trie_of(byte_vocabulary({})));
    ASSERT_TRUE(compiled.ok());
    constraint_cursor at(*compiled);
    ASSERT_TRUE(at.accept(std::string(20000, 'x')).ok());
    ASSERT_TRUE(at.accept("y").ok());
    EXPECT_TRUE(at.accepting().value());
}

TEST(constraint, depth_has_a_limit) {
    auto compiled = constraint::compile("root ::= \"(\" root \")\" | \"x\"", trie_of(byte_vocabulary({"(((((((("})));
    ASSERT_TRUE(compiled.ok());
    constraint_cursor at(*compiled);
    token_mask mask;
    int depth = 0;
    for (; depth < 10000 && at.accept("("); ++depth) {
        ASSERT_TRUE(at.mask(mask).ok());
        ASSERT_EQ(mask.test('('), constraint_cursor(at).accept("(").ok());
    }
    EXPECT_GT(depth, 100);
    EXPECT_LT(depth, 10000);
    EXPECT_TRUE(at.accept("x" + std::string(static_cast<std::size_t>(depth), ')')).ok());
    EXPECT_TRUE(at.accepting().value());
}

}  // namespace
}  // namespace troupe::model::testing
