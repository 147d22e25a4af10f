// Schemas: no golden text that is invalid is accepted; what is generated at random is valid; what is not supported is
// refused by name; hostile schemas are refused quickly.
#include <chrono>
#include <optional>
#include <random>

#include "core/limits.hpp"
#include "model/grammar/json_schema.hpp"
#include "tests/model/grammar/support.hpp"
#include "tests/model/grammar/validator.hpp"
#include "tests/support/figures.hpp"

namespace troupe::model::testing {
namespace {

TEST(json_schema, accepts_no_golden_text_that_is_invalid) {
    int accepted = 0, valid = 0, refused = 0, n = 0;
    for (const auto& c : golden_cases("json_schema.json")) {
        const auto& o = c.as_object();
        SCOPED_TRACE(std::string(o.at("id").as_string()));
        const bool is_valid = o.at("valid").as_bool();
        valid += is_valid;
        ++n;
        const auto grammar = grammar_of_schema(json::serialize(o.at("schema")), "schema");
        if (!grammar) {
            EXPECT_FALSE(is_valid) << grammar.error().message;
            ++refused;
            continue;
        }
        const auto r = read_text(*grammar, std::string_view(o.at("text").as_string()));
        ASSERT_TRUE(r.parses) << *grammar;
        if (r.accepts) {
            EXPECT_TRUE(is_valid) << "laxer than the schema";
            ++accepted;
        }
    }
    EXPECT_EQ(n, 68);
    EXPECT_EQ(refused, 2) << "`false`, and a oneOf whose branches overlap";
    // Stricter in five: two other spellings of an integer, keys in another order, keys nobody asked for, Feb 30.
    EXPECT_EQ(accepted, valid - 5);
    troupe::testing::record_figure("Grammars", "JSON schema goldens",
        fmt::format("{} of 68 judged as jsonschema does, {} valid texts not generated, 0 invalid accepted",
            n - (valid - accepted), valid - accepted),
        "0 invalid accepted");
}

/// Random choices among the allowed tokens until the text must end (or, once it may, by a throw of a coin). Nothing if
/// chance does not find the end in time (a pattern that must occur somewhere).
std::optional<std::string> random_text(const std::shared_ptr<constraint>& grammar,
    const std::vector<std::string>& vocabulary, std::mt19937_64& random, int coin) {
    constraint_cursor at(grammar);
    std::string text;
    token_mask mask;
    for (int step = 0; step < 800; ++step) {
        EXPECT_TRUE(at.mask(mask).ok());
        const bool may_end = at.accepting().value();
        if (may_end && (!mask.any() || random() % static_cast<std::uint64_t>(coin) == 0)) return text;
        // Past a while only what leads to an end: closing characters and digits before letters.
        std::vector<std::size_t> allowed;
        for (std::size_t id = 0; id < vocabulary.size(); ++id)
            if (mask.test(id)) allowed.push_back(id);
        if (allowed.empty()) {
            ADD_FAILURE() << "stuck after " << text;
            return std::nullopt;
        }
        auto pick = allowed[random() % allowed.size()];
        if (step > 60)
            for (const auto id : allowed)
                if (std::string_view("\"]}0l").find(vocabulary[id][0]) != std::string_view::npos && random() % 2) {
                    pick = id;
                    break;
                }
        EXPECT_TRUE(at.accept(static_cast<token_id>(pick)).ok());
        text += vocabulary[pick];
    }
    return std::nullopt;
}

const std::vector<const char*> more_schemas{
    R"({"type":"object","properties":{"a":{"type":"integer","minimum":-12,"maximum":1050},"b":{"type":"number","minimum":0,"maximum":1}},"required":["b"]})",
    R"({"type":"number","minimum":0.25,"maximum":0.75})", R"({"type":"number","exclusiveMinimum":-2,"maximum":3.5})",
    R"({"type":"number","exclusiveMinimum":0})", R"({"type":"number","exclusiveMaximum":-1.5})",
    R"({"type":"integer","minimum":98,"maximum":12345})", R"({"type":"integer","maximum":-7})",
    R"({"type":"integer","multipleOf":7,"minimum":10,"maximum":200})", R"({"type":"integer","multipleOf":12})",
    R"({"type":"array","items":{"enum":["x",1,null,{"k":[1,2.5]}]},"minItems":2,"maxItems":5})",
    R"({"type":"object","properties":{"ab":{"type":"null"},"abc":{"type":"boolean"}},"additionalProperties":{"type":"integer"}})",
    R"({"type":"object","additionalProperties":{"type":"string","maxLength":3},"minProperties":1,"maxProperties":4})",
    R"({"type":"string","pattern":"^(\\d{3}-)?[a-f]+(x|yy)*\\.$"})", R"({"type":"string","pattern":"a\"b\\\\c"})",
    R"({"type":"string","pattern":"^[^a-z\\n]{2,}$"})", R"({"type":"string","minLength":3,"maxLength":8})",
    R"({"anyOf":[{"type":"object","properties":{"t":{"const":"a"},"v":{"type":"integer"}},"required":["t","v"]},{"type":"array","items":{"$ref":"#"},"maxItems":3}]})",
    R"({"oneOf":[{"type":"object","properties":{"t":{"const":"a"},"v":{"type":"integer"}},"required":["t"]},{"type":"object","properties":{"t":{"const":"b"},"w":{"type":"boolean"}},"required":["t"]}]})",
    R"({"allOf":[{"type":"object","properties":{"a":{"type":"number"}},"additionalProperties":true},{"properties":{"a":{"minimum":3},"b":{"type":"string"}},"required":["a","c"]}]})",
    R"({"type":["array","null"],"prefixItems":[{"type":"integer"},{"type":"boolean"}],"items":{"type":"null"},"minItems":1,"maxItems":4})",
    R"({"properties":{"x":{"items":{"type":"string"}}},"minProperties":0})", R"({"type":"object"})",
    R"({"minLength":2})",
    R"({"$defs":{"t":{"type":"object","properties":{"l":{"anyOf":[{"$ref":"#/$defs/t"},{"type":"null"}]},"v":{"type":"integer"}},"required":["l","v"]}},"$ref":"#/$defs/t"})"};

TEST(json_schema, random_texts_are_valid_documents) {
    const auto vocabulary = byte_vocabulary({"{\"", "\":", "\": ", ", ", ",\"", "\"}", "}}", "]}", "[[", "true",
        "false", "null", "12", "007", "-1", ".5", "e+", "\\u", "\\ud8", "3d\\ude", "00", "ab", "abc", "\u00e9",
        "\U0001f600", "\xf0\x9f", "  ", "\n", "\\\"", "\"\"", "[]", "{}", "t\":\"", "\"a\"", "9999"});
    const auto trie = trie_of(vocabulary);
    std::vector<json::value> schemas;
    for (const auto& c : golden_cases("json_schema.json")) {
        const auto& s = c.as_object().at("schema");
        if (std::find(schemas.begin(), schemas.end(), s) == schemas.end()) schemas.push_back(s);
    }
    for (const auto* s : more_schemas) schemas.push_back(json::parse(s));
    const char* out = std::getenv("TROUPE_SCHEMA_TEXTS");  // for a check with another validator
    std::ofstream lines(out == nullptr ? "/dev/null" : out);
    std::mt19937_64 random(7);
    int texts = 0, refused = 0;
    for (const auto& s : schemas) {
        const auto source = json::serialize(s);
        const auto grammar = grammar_of_schema(source, "schema");
        if (!grammar) {
            ++refused;
            continue;
        }
        auto compiled = constraint::compile(*grammar, trie);
        ASSERT_TRUE(compiled.ok()) << source << "\n" << *grammar;
        for (int i = 0; i < 30; ++i) {
            const auto drawn = random_text(*compiled, vocabulary, random, 1 + i % 5);
            if (!drawn) continue;
            const auto& text = *drawn;
            boost::system::error_code ec;
            const auto v = json::parse(text, ec, {}, {.max_depth = 600});
            ASSERT_FALSE(ec) << source << "\n" << text;
            ASSERT_TRUE(validator(s).valid(v)) << source << "\n" << text << "\n" << *grammar;
            ASSERT_TRUE(utf8::well_formed(text));
            lines << json::serialize(json::object{{"schema", s}, {"text", text}}) << "\n";
            ++texts;
        }
    }
    EXPECT_EQ(refused, 2);
    EXPECT_GT(texts, 1200);
    troupe::testing::record_figure("Grammars", "texts drawn at random under schemas",
        fmt::format("{} of {} valid", texts, texts), "all valid JSON, all valid under their schema");
}

TEST(json_schema, names_keyword_and_place_of_what_it_refuses) {
    const auto refusal = [](const char* schema) {
        const auto r = grammar_of_schema(schema, "response_format");
        if (r) return "accepted: " + *r;
        EXPECT_EQ(r.error().param, "response_format");
        return std::string(info(r.error().code).name) + " " + r.error().message;
    };
    const auto expect = [&](const char* schema, const char* code, const char* words) {
        const auto r = refusal(schema);
        EXPECT_TRUE(r.starts_with(code)) << schema << ": " << r;
        EXPECT_NE(r.find(words), std::string::npos) << schema << ": " << r;
    };
    const auto unsupported = [&](const char* schema, const char* words) {
        expect(schema, "unsupported_parameter", words);
    };
    const auto invalid = [&](const char* schema, const char* words) { expect(schema, "invalid_request", words); };
    unsupported(R"({"properties":{"a":{"not":{}}}})", "'not' at #/properties/a");
    unsupported(R"({"if":{}})", "'if' at #");
    unsupported(R"({"patternProperties":{}})", "'patternProperties'");
    unsupported(R"({"type":"array","uniqueItems":true})", "'uniqueItems'");
    unsupported(R"({"contains":{}})", "'contains'");
    unsupported(R"({"minLenght":3})", "'minLenght'");
    unsupported(R"({"items":[{}]})", "'items'");
    unsupported(R"({"$ref":"http://example.org/x"})", "'$ref'");
    unsupported(R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "'oneOf'");
    unsupported(R"({"oneOf":[{"properties":{"a":{}}},{"type":"string"}]})", "'oneOf'");
    unsupported(R"({"type":"string","pattern":"(?=a)b"})", "pattern");
    unsupported(R"({"type":"string","pattern":"(a)\\1"})", "pattern");
    unsupported(R"({"type":"string","pattern":"a","maxLength":3})", "length");
    unsupported(R"({"type":"number","multipleOf":0.1})", "'multipleOf'");
    unsupported(R"({"type":"object","minProperties":2})", "'minProperties'");
    unsupported(R"({"enum":[{"a":1}],"required":["a"]})", "'enum'");
    invalid(R"({"$ref":"#"})", "refers to itself");
    invalid(R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", "refers to itself");
    invalid(R"({"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"$ref":"#"}}})", "refers to itself");
    invalid(R"({"$ref":"#/$defs/none"})", "names nothing");
    invalid(R"({"type":"strin"})", "'type'");
    invalid(R"({"type":5})", "'type'");
    invalid(R"({"properties":[]})", "'properties'");
    invalid(R"({"required":"a"})", "'required'");
    invalid(R"({"minLength":-1})", "'minLength'");
    invalid(R"({"enum":[]})", "'enum'");
    invalid(R"(5)", "object");
    invalid(R"({"a":)", "JSON");
    invalid(R"(false)", "no value");
    invalid(R"({"type":"integer","minimum":3,"maximum":2})", "no value");
    invalid(R"({"type":"string","enum":[1]})", "no value");
    invalid(R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})", "no value");
}

TEST(json_schema, hostile_schemas_are_refused_or_built_quickly) {
    const auto start = std::chrono::steady_clock::now();
    const auto refused = [](const std::string& s) { return !grammar_of_schema(s, "schema").ok(); };
    std::string deep;
    for (int i = 0; i < 30; ++i) deep += R"({"items":)";
    std::string deeper = deep + deep + deep;
    EXPECT_FALSE(refused(deep + "{}" + std::string(30, '}')));
    EXPECT_TRUE(refused(deeper + "{}" + std::string(90, '}')));
    EXPECT_TRUE(refused("\"" + std::string(limits::max_schema_bytes, 'x') + "\""));
    std::string choices = R"({"allOf":[)";
    for (int i = 0; i < 40; ++i)
        choices += std::string(i ? "," : "") + R"({"anyOf":[{"type":"integer"},{"type":"string"},false]})";
    EXPECT_TRUE(refused(choices + "]}"));
    std::string chain = R"({"$ref":"#/$defs/d0","$defs":{)";
    for (int i = 0; i < 5000; ++i)
        chain += "\"d" + std::to_string(i) + R"(":{"type":"object","properties":{"p":{"$ref":"#/$defs/d)" +
                 std::to_string(i + 1) + "\"}}},";
    EXPECT_TRUE(refused(chain + R"("d5000":{}}})"));
    std::string names = R"({"type":"object","properties":{)";
    for (int i = 0; i < 30000; ++i) names += (i ? ",\"n" : "\"n") + std::to_string(i) + "\":{}";
    EXPECT_TRUE(refused(names + "}}"));
    EXPECT_FALSE(refused(R"({"type":"string","minLength":100000,"maxLength":900000})"));
    EXPECT_FALSE(refused(R"({"type":"array","items":{"type":"array","minItems":100000},"maxItems":100000})"));
    EXPECT_TRUE(refused(R"({"type":"string","pattern":")" + std::string(5000, '(') + "\"}"));
    std::string many = R"({"oneOf":[)";
    for (int i = 0; i < 3000; ++i) many += (i ? "," : "") + std::string(R"({"enum":[)") + std::to_string(i) + "]}";
    EXPECT_TRUE(refused(many + "]}"));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace troupe::model::testing
