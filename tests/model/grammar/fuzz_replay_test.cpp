// The fuzz entry over mutations of the golden grammars and schemas, and over words of both notations in random order.
#include "tests/fuzz/grammar_fuzz.hpp"

#include <random>

#include "tests/model/grammar/support.hpp"

namespace troupe::model::testing {
namespace {

TEST(grammar_fuzz, mutations_of_goldens_neither_crash_nor_hang) {
    std::vector<std::string> seeds;
    for (const auto& c : golden_cases("gbnf.json")) seeds.emplace_back(c.as_object().at("grammar").as_string());
    for (const auto& c : golden_cases("json_schema.json")) seeds.push_back(json::serialize(c.as_object().at("schema")));
    std::mt19937 random(11);
    const auto below = [&](std::size_t n) { return random() % n; };
    int good = 0;
    for (int i = 0; i < 4000; ++i) {
        auto mutant = seeds[below(seeds.size())];
        if (i % 3 == 0) mutant += seeds[below(seeds.size())].substr(0, 30);
        for (std::size_t flips = below(4); flips > 0 && !mutant.empty(); --flips)
            mutant[below(mutant.size())] ^= static_cast<char>(1 << below(8));
        if (i % 3 == 2) mutant.insert(below(mutant.size() + 1), mutant.substr(below(mutant.size() + 1), below(20)));
        good += fuzz::run_grammar(mutant);
    }
    EXPECT_GT(good, 300);
}

TEST(grammar_fuzz, words_in_random_order) {
    static const char* words[] = {"root ::= ", "\"a\"", "[a-z]", "[^\"]", "(", ")", "|", "*", "+", "?", "{2}", "{1,}",
        "{0,3}", "x", "\nx ::= ", ".", "root", "\"\\x41\"", "#c\n", "{", "}", ","};
    static const char* keys[] = {R"("type":"object")", R"("type":["string","integer"])", R"("properties":{"a":)",
        R"("items":)", R"("anyOf":[)", R"("oneOf":[)", R"("$ref":"#")", R"("$ref":"#/properties/a")",
        R"("enum":[1,"x"])", R"("minimum":-3.5)", R"("pattern":"^a[b-d]*$")", R"("minLength":3)", R"("required":["a"])",
        R"("additionalProperties":)", "{", "}", "]", ",", "true", "false"};
    std::mt19937 random(13);
    for (int i = 0; i < 4000; ++i) {
        std::string grammar = "root ::= ", schema = "{";
        for (unsigned n = random() % 12; n > 0; --n) {
            grammar += std::string(words[random() % std::size(words)]) + " ";
            schema += std::string(keys[random() % std::size(keys)]) + (random() % 2 ? "," : "");
        }
        fuzz::run_grammar(grammar);
        fuzz::run_grammar(schema + "}");
    }
}

}  // namespace
}  // namespace troupe::model::testing
