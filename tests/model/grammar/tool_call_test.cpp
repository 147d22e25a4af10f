// Tool calls: what the grammar lets through is what the parser finds, in pieces of any size; everything else stays
// content.
#include <random>

#include "model/tools/call_parser.hpp"
#include "tests/model/grammar/support.hpp"

namespace troupe::model::testing {
namespace {

using kind = call_piece::kind;

const json::array& two_tools() {
    static const json::array list = json::parse(R"([
        {"type":"function","function":{"name":"add","parameters":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}}},
        {"type":"function","function":{"name":"address","description":"d"}}])")
                                        .as_array();
    return list;
}

std::string grammar(call_style style, const std::string& choice, bool parallel = true) {
    const auto tools = read_tools(two_tools());
    EXPECT_TRUE(tools.ok());
    const auto g = grammar_of_tools(*tools, style, choice, parallel);
    EXPECT_TRUE(g.ok()) << (g ? "" : g.error().message);
    return g ? *g : "";
}

struct found {
    std::string content;
    std::vector<std::pair<std::string, std::string>> calls;
    int complete = 0;
    bool operator==(const found&) const = default;
};
found parse(call_style style, std::string_view text, std::size_t step) {
    call_parser p(style, {"add", "address"});
    found f;
    const auto take = [&](const std::vector<call_piece>& pieces) {
        for (const auto& x : pieces) {
            if (x.what == kind::content) f.content += x.text;
            if (x.what == kind::name) f.calls.emplace_back(x.text, "");
            if (x.what == kind::arguments) f.calls.at(static_cast<std::size_t>(x.index)).second += x.text;
        }
    };
    for (; !text.empty(); text.remove_prefix(std::min(step, text.size()))) take(p.push(text.substr(0, step)));
    take(p.finish());
    f.complete = p.n_calls();
    return f;
}
/// The same at any size of pieces.
found parse(call_style style, std::string_view text) {
    const auto whole = parse(style, text, text.size() + 1);
    for (std::size_t step = 1; step < 9; ++step) EXPECT_EQ(parse(style, text, step), whole) << text << " by " << step;
    return whole;
}

const std::string add_call = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\":2}}\n</tool_call>";
const std::string other_call = "<tool_call>\n{\"name\": \"address\", \"arguments\": {}}\n</tool_call>";

TEST(tool_calls, the_grammar_of_a_choice) {
    const auto accepts = [](const std::string& g, const std::string& text) { return read_text(g, text).accepts; };
    const auto any = grammar(call_style::hermes, "auto");
    for (const auto& text : std::vector<std::string>{
             "", "no call", "a < b <tool_cal <<tool_", "before " + add_call, add_call + "\n" + other_call})
        EXPECT_TRUE(accepts(any, text)) << text;
    for (const auto& text :
        std::vector<std::string>{"<tool_call>", "x<tool_call>\n{\"name\": \"sub\"", add_call + " after",
            "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>", "<<tool_call>x"})
        EXPECT_FALSE(accepts(any, text)) << text;
    const auto single = grammar(call_style::hermes, "auto", false);
    EXPECT_TRUE(accepts(single, "x" + add_call));
    EXPECT_FALSE(accepts(single, add_call + "\n" + other_call));
    const auto required = grammar(call_style::hermes, "required");
    EXPECT_TRUE(accepts(required, other_call));
    EXPECT_FALSE(accepts(required, "text"));
    EXPECT_FALSE(accepts(required, ""));
    const auto named = grammar(call_style::hermes, "add");
    EXPECT_TRUE(accepts(named, add_call));
    EXPECT_FALSE(accepts(named, other_call));
    const auto llama = grammar(call_style::llama3, "auto");
    for (const std::string text :
        {"", "free {\"name\": \"add\"}", "{\"name\": \"Bob\"}", "{", "{\"name\": \"add\", \"x\": 1}",
            "{\"name\": \"address\", \"parameters\": {}}", "{\"name\": \"add\", \"parameters\": {\"a\":1,\"b\":2}}"})
        EXPECT_TRUE(accepts(llama, text)) << text;
    EXPECT_FALSE(accepts(llama, "{\"name\": \"add\", \"parameters\": {}}"));
    EXPECT_FALSE(accepts(llama, "{\"name\": \"add\", \"parameters\": {\"a\":1,\"b\":2}} more"));
    EXPECT_FALSE(accepts(grammar(call_style::llama3, "required"), "free"));
}

TEST(tool_calls, are_found_in_pieces_of_any_size) {
    EXPECT_EQ(parse(call_style::hermes, "text " + add_call + "\n" + other_call),
        (found{"text ", {{"add", "{\"a\": 1, \"b\":2}"}, {"address", "{}"}}, 2}));
    const std::string tricky = R"({"s": "}]\"</tool_call>\\", "l": [{}]})";
    EXPECT_EQ(
        parse(call_style::hermes, "<tool_call>\n{\"name\": \"add\", \"arguments\": " + tricky + "}\n</tool_call>"),
        (found{"", {{"add", tricky}}, 1}));
    EXPECT_EQ(parse(call_style::llama3, "{\"name\": \"add\", \"parameters\": {\"a\": 1}}"),
        (found{"", {{"add", "{\"a\": 1}"}}, 1}));
}

TEST(tool_calls, what_merely_looks_like_one_stays_content) {
    for (const std::string text :
        {"plain", "<tool_call>", "<tool_call>\n{\"name\": \"sub\", \"arguments\": {}}", "a <tool_ca",
            "<tool_call>\n{\"arguments\": {}}", "<<tool_call>x<tool_call>\n", "<tool_call>\n{\"name\": \"ad"})
        EXPECT_EQ(parse(call_style::hermes, text), (found{text, {}, 0})) << text;
    for (const std::string text :
        {"{\"name\": \"Bob\"}", "x{\"name\": \"add\", \"parameters\": {}}", "{\"na", "{\"name\": \"add\", \"age\": 3}"})
        EXPECT_EQ(parse(call_style::llama3, text), (found{text, {}, 0})) << text;
    EXPECT_EQ(parse(call_style::hermes, add_call + "\n").content, "");
    EXPECT_EQ(parse(call_style::hermes, add_call + "\nmore").content, "\nmore");
    const auto cut = parse(call_style::hermes, add_call.substr(0, add_call.size() - 25));
    EXPECT_EQ(cut.complete, 0);
    EXPECT_EQ(cut.calls.size(), 1u);
}

TEST(tool_calls, random_answers_under_the_grammar_are_parsed_without_loss) {
    const auto vocabulary = byte_vocabulary({"<tool_call>", "<tool_call>\n", "</tool_call>", "{\"name\": \"", "add",
        "\", \"", "arguments\": {\"", "}}", "}}\n", "parameters\": ", "\n{", "Hello", " <", "tool_", "1", "23"});
    const auto trie = trie_of(vocabulary);
    std::mt19937_64 random(5);
    int calls = 0;
    for (const auto style : {call_style::hermes, call_style::llama3})
        for (const std::string choice : {"auto", "required", "address"}) {
            auto compiled = constraint::compile(grammar(style, choice), trie);
            ASSERT_TRUE(compiled.ok());
            for (int i = 0; i < 40; ++i) {
                constraint_cursor at(*compiled);
                std::string text;
                token_mask mask;
                for (int step = 0; step < 300; ++step) {
                    ASSERT_TRUE(at.mask(mask).ok());
                    std::vector<std::size_t> allowed;
                    for (std::size_t id = 0; id < vocabulary.size(); ++id)
                        if (mask.test(id) && (id >= 256 || !allowed.size() || random() % 8 == 0)) allowed.push_back(id);
                    if (allowed.empty() || (at.accepting().value() && random() % 6 == 0)) break;
                    const auto pick = allowed[random() % allowed.size()];
                    ASSERT_TRUE(at.accept(static_cast<token_id>(pick)).ok());
                    text += vocabulary[pick];
                }
                if (!at.accepting().value() || !utf8::well_formed(text)) continue;
                const auto f = parse(style, text);
                ASSERT_EQ(static_cast<int>(f.calls.size()), f.complete) << text;
                for (const auto& [name, arguments] : f.calls) ASSERT_TRUE(json::parse(arguments).is_object()) << text;
                if (choice != "auto") {
                    ASSERT_GE(f.complete, 1) << text;
                }
                calls += f.complete;
            }
        }
    EXPECT_GT(calls, 40);
}

TEST(tool_calls, refuses_what_is_no_list_of_tools) {
    const auto refused = [](const char* list) {
        const auto r = read_tools(json::parse(list).as_array());
        return !r.ok() && r.error().param == "tools";
    };
    EXPECT_TRUE(refused(R"([5])"));
    EXPECT_TRUE(refused(R"([{"type":"retrieval"}])"));
    EXPECT_TRUE(refused(R"([{"type":"function","function":{"name":""}}])"));
    EXPECT_TRUE(refused(R"([{"type":"function","function":{"name":"a b"}}])"));
    EXPECT_TRUE(refused(R"([{"type":"function","function":{"name":"f","parameters":[]}}])"));
    EXPECT_TRUE(
        refused(R"([{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}])"));
    const auto tools = read_tools(two_tools());
    const auto unknown = grammar_of_tools(*tools, call_style::hermes, "sub", true);
    ASSERT_FALSE(unknown.ok());
    EXPECT_EQ(unknown.error().param, "tool_choice");
    const auto bad =
        read_tools(json::parse(R"([{"type":"function","function":{"name":"f","parameters":{"not":{}}}}])").as_array());
    const auto schema = grammar_of_tools(*bad, call_style::hermes, "auto", true);
    ASSERT_FALSE(schema.ok());
    EXPECT_EQ(schema.error().code, errc::unsupported_parameter);
    EXPECT_EQ(schema.error().param, "tools");
}

}  // namespace
}  // namespace troupe::model::testing
