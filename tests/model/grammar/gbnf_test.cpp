// The notation: every golden case, and what must be refused quickly.
#include <chrono>

#include "core/limits.hpp"
#include "tests/model/grammar/support.hpp"
#include "tests/support/figures.hpp"

namespace troupe::model::testing {
namespace {

TEST(gbnf, follows_every_golden_case) {
    int n = 0;
    for (const auto& c : golden_cases("gbnf.json")) {
        const auto& o = c.as_object();
        SCOPED_TRACE(std::string(o.at("id").as_string()));
        const auto r = read_text(std::string(o.at("grammar").as_string()), std::string_view(o.at("text").as_string()));
        EXPECT_EQ(r.parses, o.at("parses").as_bool());
        EXPECT_EQ(r.accepts, o.at("accepts").as_bool());
        if (const auto* prefix = o.if_contains("prefix_ok")) {
            EXPECT_EQ(r.prefix_ok, prefix->as_bool());
            EXPECT_EQ(r.code_points, o.at("accepted_code_points").as_int64());
        }
        ++n;
    }
    EXPECT_EQ(n, 52);
    troupe::testing::record_figure("Grammars", "GBNF goldens", std::to_string(n) + " of 52 as llama.cpp", "all");
}

std::string refusal(const std::string& grammar) {
    const auto r = parse_gbnf(grammar);
    if (r) return "parsed";
    EXPECT_EQ(r.error().code, errc::invalid_request);
    EXPECT_EQ(r.error().param, "grammar");
    return r.error().message;
}

TEST(gbnf, names_what_it_refuses) {
    EXPECT_NE(refusal("root ::= \"a\" other").find("'other' is not defined"), std::string::npos);
    EXPECT_NE(refusal("x ::= \"a\"").find("no rule 'root'"), std::string::npos);
    EXPECT_NE(refusal("").find("no rule 'root'"), std::string::npos);
    EXPECT_NE(refusal("root ::= a\na ::= b \"x\"\nb ::= \"y\"? a").find("left-recursive"), std::string::npos);
    EXPECT_NE(refusal("root ::= (root | \"a\")").find("left-recursive"), std::string::npos);
    EXPECT_NE(refusal("root ::= root*").find("left-recursive"), std::string::npos);
    EXPECT_NE(refusal("root ::= \"a\" root").find("no finite text"), std::string::npos);
    EXPECT_NE(refusal("root ::= \"a\"\nroot ::= \"b\"").find("line 2"), std::string::npos);
    EXPECT_NE(refusal("root ::= [z-a]").find("backwards"), std::string::npos);
    EXPECT_NE(refusal("root ::= []").find("no character"), std::string::npos);
    EXPECT_NE(refusal("root ::= [^\\x00-\\U0010FFFF]").find("no character"), std::string::npos);
    EXPECT_NE(refusal("root ::= * \"a\"").find("nothing before"), std::string::npos);
    EXPECT_NE(refusal("root ::= \"a\"{3,2}").find("below its lower"), std::string::npos);
    EXPECT_NE(refusal("root ::= \"a\"{99999999999}").find("repetition above"), std::string::npos);
    EXPECT_NE(refusal("root ::= \"\\ud800\"").find("no code point"), std::string::npos);
    EXPECT_NE(refusal("root ::= \"\\q\"").find("unknown escape"), std::string::npos);
    EXPECT_NE(refusal("root ::= \"a\" <[5]>").find("end of the line"), std::string::npos);
    EXPECT_NE(refusal("root ::= \"\xff\"").find("UTF-8"), std::string::npos);
    EXPECT_NE(refusal(std::string(1000, '(')).find("name"), std::string::npos);
    EXPECT_NE(refusal("root ::= " + std::string(1000, '(')).find("nested deeper"), std::string::npos);
}

TEST(gbnf, hostile_grammars_are_refused_or_built_quickly) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_NE(refusal(std::string(limits::max_grammar_bytes + 1, ' ')), "parsed");
    std::string chain = "root ::= r0\n";
    for (int i = 0; i < 20000; ++i) chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
    EXPECT_EQ(refusal(chain + "r20000 ::= \"x\""), "parsed");
    EXPECT_NE(refusal(chain + "r20000 ::= r0").find("left-recursive"), std::string::npos);
    std::string unrolled = "\"a\"?";
    for (int i = 0; i < 12; ++i) unrolled = "(" + unrolled + "){0,200}";
    const auto parsed = parse_gbnf("root ::= " + unrolled);
    ASSERT_TRUE(parsed.ok());
    EXPECT_FALSE(build_automaton(*parsed).ok());
    const auto counted = parse_gbnf("root ::= (((([a-z]{1000}){1000}){1000}){1000}){1000}");
    ASSERT_TRUE(counted.ok());
    EXPECT_TRUE(build_automaton(*counted).ok()) << "loops are counted, not unrolled";
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(gbnf, details_of_the_notation) {
    const auto accepts = [](const std::string& g, std::string_view text) { return read_text(g, text).accepts; };
    EXPECT_TRUE(accepts("root ::= \"a\"*? \"b\"", "aab"));
    EXPECT_TRUE(accepts("root ::= (\"\" | \"a\"){3} \"b\"", "ab"));
    EXPECT_TRUE(accepts("root ::= (\"\" | \"a\"){3} \"b\"", "aaab"));
    EXPECT_FALSE(accepts("root ::= (\"\" | \"a\"){3} \"b\"", "aaaab"));
    EXPECT_TRUE(accepts("root ::= \"a\" { 1 , 2 }", "aa"));
    EXPECT_TRUE(accepts("root ::= [a-]", "-"));
    EXPECT_TRUE(accepts("root ::= [^-]", "a"));
    EXPECT_FALSE(accepts("root ::= [^-]", "-"));
    EXPECT_TRUE(accepts("root::=\"a\"|\r\n\"b\"\r\n", "b"));
    EXPECT_TRUE(accepts("root ::= (\n\"a\" # one\n| \"b\" # two\n)", "b"));
    EXPECT_TRUE(accepts("root ::= my_rule-2\nmy_rule-2 ::= \"x\"", "x"));
    EXPECT_TRUE(accepts("root ::= ([a-z] | [b-y]){2,3} \"z\"", "mmz"));
    EXPECT_FALSE(accepts("root ::= ([a-z] | [b-y]){2,3} \"!\"", "mmmm!"));
    EXPECT_TRUE(accepts("root ::= [^a-z]+", "\u00e9\U0001f600\U0010ffff"));
}

}  // namespace
}  // namespace troupe::model::testing
