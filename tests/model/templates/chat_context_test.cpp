// Messages brought into the form each template accepts, and the built-in templates.
#include "model/templates/chat_context.hpp"

#include <algorithm>

#include "tests/model/templates/support.hpp"

namespace troupe::model::testing {
namespace {

std::shared_ptr<const chat_format> load(const std::string& source, std::vector<std::string> tokens = {}) {
    const auto r = chat_format::load(source, "<bos>", "<eos>",
        [&](std::string_view token) { return std::find(tokens.begin(), tokens.end(), token) != tokens.end(); });
    EXPECT_TRUE(r.ok()) << (r.ok() ? "" : r.error().message);
    return r.ok() ? *r : nullptr;
}

std::string text(const chat_format& f, const std::vector<chat_message>& messages, const chat_options& options = {}) {
    const auto r = f.render(messages, options, golden_now);
    return r ? join(*r) : "ERROR " + r.error().message;
}

TEST(chat_context, system_is_folded_where_the_template_refuses_it) {
    const auto gemma = load(template_source("gemma-2-2b-it"));
    EXPECT_TRUE(gemma->habits().fold_system);
    EXPECT_TRUE(gemma->habits().merge_turns);
    EXPECT_EQ(text(*gemma, {{"system", "Be brief.", ""}, {"user", "Hi", ""}}),
        "<bos><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\n");
    EXPECT_EQ(text(*gemma, {{"system", "Only system", ""}}),
        "<bos><start_of_turn>user\nOnly system<end_of_turn>\n<start_of_turn>model\n");
    EXPECT_EQ(text(*gemma, {{"user", "a", ""}, {"user", "b", ""}, {"assistant", "c", ""}, {"system", "S", ""},
                               {"user", "d", ""}}),
        "<bos><start_of_turn>user\na\n\nb<end_of_turn>\n<start_of_turn>model\nc<end_of_turn>\n"
        "<start_of_turn>user\nS\n\nd<end_of_turn>\n<start_of_turn>model\n");
    EXPECT_EQ(text(*gemma, {{"assistant", "a", ""}, {"user", "b", ""}}),
        "ERROR Conversation roles must alternate user/assistant/user/assistant/...");
}

TEST(chat_context, habits_of_published_templates) {
    const auto habits = [](const std::string& name) { return load(template_source(name))->habits(); };
    EXPECT_EQ(habits("qwen2.5-7b-instruct"), chat_habits{});
    EXPECT_EQ(habits("llama-3.1-8b-instruct"), chat_habits{});
    EXPECT_EQ(habits("smollm2-135m-instruct"), chat_habits{});
    EXPECT_EQ(habits("min-chatml"), chat_habits{});
    EXPECT_EQ(habits("min-gemma-3"), (chat_habits{.merge_turns = true}));
    EXPECT_EQ(habits("mistral-7b-instruct-v0.2"), (chat_habits{.fold_system = true, .merge_turns = true}));
    EXPECT_EQ(habits("deepseek-r1-distill-llama-8b"), (chat_habits{.arguments_as_text = true, .null_content = true}));
    EXPECT_EQ(habits("hermes-2-pro-llama-3-tool-use"), chat_habits{});
}

TEST(chat_context, every_golden_template_takes_a_conversation_with_a_system_message) {
    const json::value goldens = read_json("expected.json");
    for (const auto& item : goldens.at("templates").as_object()) {
        const auto format = load(template_source(std::string(item.key())));
        const std::string got =
            text(*format, {{"system", "sys-text", ""}, {"user", "one", ""}, {"user", "user-text", ""}});
        EXPECT_NE(got.find("sys-text"), std::string::npos) << item.key() << ": " << got;
        EXPECT_NE(got.find("user-text"), std::string::npos) << item.key() << ": " << got;
    }
}

TEST(chat_context, templates_that_want_parts_get_parts) {
    const auto f =
        load("{% for m in messages %}<{{ m.role }}>{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}");
    EXPECT_TRUE(f->habits().content_parts);
    EXPECT_EQ(text(*f, {{"user", "hi", ""}}), "<user>hi");
}

TEST(chat_context, tools_are_undefined_without_any_unless_the_template_cannot_do_without) {
    const auto defined =
        load("{{ tools is defined }}{% if tools %}{{ tools[0].function.name }}{% endif %} {{ messages[0].content }}");
    EXPECT_EQ(text(*defined, {{"user", "x", ""}}), "False x");
    chat_options options;
    options.tools = {{{"function", {{"name", "f"}}}}};
    EXPECT_EQ(text(*defined, {{"user", "x", ""}}, options), "Truef x");
    const auto needs = load("{% if tools is not none %}{{ tools.name.x }}{% endif %}{{ messages[0].content }}");
    EXPECT_TRUE(needs->habits().tools_always);
    EXPECT_EQ(text(*needs, {{"user", "x", ""}}), "x");
}

TEST(chat_context, finds_out_how_a_template_writes_calls) {
    const auto calls = [](const std::string& name) { return load(template_source(name))->calls(); };
    EXPECT_EQ(calls("qwen2.5-7b-instruct"), call_style::hermes);
    EXPECT_EQ(calls("hermes-2-pro-llama-3-tool-use"), call_style::hermes);
    EXPECT_EQ(calls("llama-3.1-8b-instruct"), call_style::llama3);
    EXPECT_EQ(calls("llama-3.2-3b-instruct"), call_style::llama3);
    EXPECT_EQ(calls("min-chatml"), call_style::hermes) << "taught by the system message";
    EXPECT_EQ(calls("smollm2-135m-instruct"), call_style::hermes);
    EXPECT_EQ(calls("gemma-2-2b-it"), call_style::hermes);
}

TEST(chat_context, a_template_that_knows_no_tools_is_taught_them) {
    const auto f = load(template_source("min-chatml"));
    chat_options options;
    options.tools = {{{"type", "function"}, {"function", {{"name", "add"}}}}};
    const std::string calls =
        R"({"tool_calls":[{"id":"c","type":"function","function":{"name":"add","arguments":"{\"a\": 1}"}}]})";
    const std::vector<chat_message> turns = {{"system", "Be brief.", ""}, {"user", "1+2?", ""},
        {"assistant", "", calls}, {"tool", "3", R"({"tool_call_id":"c"})"}, {"tool", "four", ""}};
    const auto got = text(*f, turns, options);
    EXPECT_NE(got.find("<|im_start|>system\nBe brief.\n\n# Functions"), std::string::npos) << got;
    EXPECT_NE(
        got.find("<tools>\n{\"type\":\"function\",\"function\":{\"name\":\"add\"}}\n</tools>"), std::string::npos);
    EXPECT_NE(
        got.find("assistant\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call><|im_end|>"),
        std::string::npos)
        << got;
    EXPECT_NE(got.find("user\n<tool_response>\n3\n</tool_response>\n<tool_response>\nfour\n</tool_response><|im_end|>"),
        std::string::npos)
        << got;
    EXPECT_EQ(text(*f, {{"user", "x", ""}}, {}).find("Functions"), std::string::npos);
    options.tools = {{{"type", "function"}, {"function", {{"name", "add"}}}}};
    const auto gemma = text(*load(template_source("gemma-2-2b-it")), {{"user", "x", ""}}, options);
    EXPECT_NE(gemma.find("<start_of_turn>user\n# Functions"), std::string::npos) << gemma;
}

TEST(chat_context, extras_reach_the_template_without_nulls) {
    const auto f = load("{{ messages[-1] | tojson }}");
    EXPECT_EQ(
        text(*f,
            {{"assistant", "",
                R"({"name":null,"tool_calls":[{"function":{"name":"f","arguments":"{\"a\": 1}"}}],"content":"no"})"}}),
        R"({"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]})");
    EXPECT_EQ(text(*f, {{"user", "a", "[1]"}}), "ERROR a message has further keys that are no JSON object");
    EXPECT_EQ(text(*f, {{"user", "a", "{"}}), "ERROR a message has further keys that are no JSON object");
}

TEST(chat_context, variables_cannot_replace_what_the_server_sets) {
    const auto f = load(
        "{{ messages | length }}{{ bos_token }}{{ add_generation_prompt }}{{ date_string }}{{ messages[0].content }}");
    chat_options options;
    options.add_generation_prompt = false;
    options.variables = {{"messages", json::array{}}, {"bos_token", "evil"}, {"date_string", "today"}};
    EXPECT_EQ(text(*f, {{"user", "x", ""}}, options), "1<bos>Falsetodayx");
}

TEST(chat_context, developer_is_system_unless_the_template_knows_it) {
    EXPECT_EQ(text(*load("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"),
                  {{"developer", "d", ""}, {"user", "u", ""}}),
        "[system]d[user]u");
    EXPECT_EQ(text(*load("{# developer #}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"),
                  {{"developer", "d", ""}, {"user", "u", ""}}),
        "[developer]d[user]u");
}

TEST(chat_context, built_in_templates) {
    const std::vector<chat_message> messages = {
        {"system", "S", ""}, {"user", "U", ""}, {"assistant", "A", ""}, {"user", "V", ""}};
    const auto chatml = load("", {"<|im_start|>", "<start_of_turn>"});
    EXPECT_TRUE(chatml->built_in());
    EXPECT_EQ(text(*chatml, messages),
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n"
        "<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n");
    EXPECT_EQ(text(*load("", {"<start_of_turn>"}), messages),
        "<start_of_turn>user\nS\n\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n"
        "<start_of_turn>user\nV<end_of_turn>\n<start_of_turn>model\n");
    EXPECT_EQ(text(*load(""), messages), "system: S\nuser: U\nassistant: A\nuser: V\nassistant:");
    EXPECT_FALSE(load("{{ messages[0].content }}")->built_in());
}

TEST(chat_context, a_template_that_renders_nothing_is_refused) {
    for (const char* source : {"{{ raise_exception('no') }}", "{{ nothing.at.all }}", "{% if %}"}) {
        const auto r = chat_format::load(source, "", "", [](std::string_view) { return false; });
        ASSERT_FALSE(r.ok()) << source;
        EXPECT_EQ(r.error().code, errc::model_unsupported);
    }
}

TEST(chat_context, content_is_flattened) {
    EXPECT_EQ(*flatten_content(json::value("a")), "a");
    EXPECT_EQ(*flatten_content(json::value(nullptr)), "");
    EXPECT_EQ(
        *flatten_content(json::array{{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b"}}}), "a\nb");
    EXPECT_EQ(flatten_content(json::array{{{"type", "image_url"}}}).error().code, errc::unsupported_parameter);
    EXPECT_EQ(flatten_content(json::array{1}).error().code, errc::invalid_request);
    EXPECT_EQ(flatten_content(json::value(1)).error().code, errc::invalid_request);
}

}  // namespace
}  // namespace troupe::model::testing
