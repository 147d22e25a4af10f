// Every golden case: 45 published templates over 35 conversations, and 76 feature templates with their parts, as real
// jinja2 set up like transformers renders them.
#include <thread>

#include "tests/model/templates/support.hpp"
#include "tests/support/figures.hpp"

namespace troupe::model::testing {
namespace {

/// An error case: raise_exception must give its message; a Python error must fail or give the lenient text of
/// llama.cpp.
void expect_error(const json::object& error, const result<std::vector<text_part>>& got, const std::string& what) {
    const std::string kind(error.at("kind").as_string());
    if (kind == "raise_exception") {
        ASSERT_FALSE(got.ok()) << what;
        EXPECT_EQ(got.error().code, errc::invalid_request) << what;
        EXPECT_EQ(got.error().message, std::string(error.at("message").as_string())) << what;
    } else if (kind == "compile") {
        ASSERT_FALSE(got.ok()) << what;
        EXPECT_EQ(got.error().code, errc::model_unsupported) << what;
    } else if (got.ok()) {
        const auto* lenient = error.if_contains("lenient");
        ASSERT_NE(lenient, nullptr) << what << " must fail: " << error.at("message");
        EXPECT_EQ(join(*got), std::string(lenient->as_string())) << what;
    } else {
        EXPECT_EQ(got.error().code, errc::invalid_request) << what;
    }
}

/// One row of docs/correctness.md about `n` cases.
void record(const std::string& section, const std::string& what, int n) {
    troupe::testing::record_figure(
        section, what, ::testing::Test::HasFailure() ? "not all equal" : fmt::format("{0} of {0} equal", n), "all");
}

TEST(templates, render_every_golden_conversation_exactly) {
    const json::value goldens = read_json("expected.json"), conversations = read_json("conversations.json");
    const auto& texts = goldens.at("texts").as_array();
    int compared = 0, errors = 0;
    for (const auto& item : goldens.at("templates").as_object()) {
        const std::string name(item.key());
        const auto parsed = chat_template::parse(template_source(name));
        ASSERT_TRUE(parsed.ok()) << name << ": " << parsed.error().message;
        for (const auto& conversation : conversations.as_array()) {
            const std::string id(conversation.at("id").as_string());
            json::object context = conversation.at("vars").as_object();
            context["messages"] = conversation.at("messages");
            context["bos_token"] = item.value().at("bos_token");
            context["eos_token"] = item.value().at("eos_token");
            const auto got = (*parsed)->render(context, golden_now);
            const auto& want = item.value().at("cases").at(id).as_object();
            if (const auto* error = want.if_contains("error")) {
                expect_error(error->as_object(), got, name + "/" + id);
                ++errors;
            } else if (got.ok()) {
                const auto& text = texts.at(want.at("text").to_number<std::size_t>()).as_string();
                EXPECT_EQ(join(*got), std::string(text)) << name << "/" << id;
            } else {
                ADD_FAILURE() << name << "/" << id << ": " << got.error().message;
            }
            ++compared;
        }
    }
    EXPECT_EQ(compared, 1575);
    EXPECT_EQ(errors, 205);
    record("Chat templates", "45 templates x 35 conversations: text", compared - errors);
    record("Chat templates", "the same: refusals, with the template's own words where it has some", errors);
}

void check_feature(const std::string& what, const json::object& c, const json::object& context) {
    const auto got = render(std::string(c.at("template").as_string()), context);
    if (const auto* error = c.if_contains("error")) return expect_error(error->as_object(), got, what);
    ASSERT_TRUE(got.ok()) << what << ": " << got.error().message << "\n" << c.at("template");
    EXPECT_EQ(join(*got), std::string(c.at("expected").as_string())) << what << "\n" << c.at("template");
}

TEST(templates, give_pythons_result_for_every_feature) {
    const json::value features = read_json("features.json");
    int cases = 0, parts = 0;
    for (const auto& value : features.as_array()) {
        const auto& c = value.as_object();
        const std::string id(c.at("id").as_string());
        check_feature(id, c, c.at("context").as_object());
        ++cases;
        const auto* pieces = c.if_contains("parts");
        if (pieces == nullptr) continue;
        for (const auto& part : pieces->as_array()) {
            check_feature(id + "#" + std::to_string(parts++), part.as_object(), c.at("context").as_object());
        }
    }
    EXPECT_EQ(cases, 76);
    EXPECT_EQ(parts, 285);
    record("Chat templates", "Jinja features", cases);
    record("Chat templates", "Jinja features, expression by expression", parts);
}

TEST(templates, parse_errors_name_the_line) {
    const auto r = chat_template::parse("a\nb\n{% if %}x{% endif %}");
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().code, errc::model_unsupported);
    EXPECT_NE(r.error().message.find("line 3"), std::string::npos) << r.error().message;
}

TEST(templates, refuse_what_is_no_template) {
    for (const char* source : {"{{", "{%", "{#", "{{ 'a", "{{ a", "{% if a %}", "{% endif %}", "{% for x in y %}",
             "{{ (1 }}", "{{ 1) }}", "{{ 9|9|{ }}", "{{9|9|{", "{{ a. }}", "{{ a[ }}", "{% set = 1 %}",
             "{% set none = 1 %}", "{{ 1 + }}", "{% macro f( %}{% endmacro %}", "{% break %}", "{% include 'x' %}",
             "{% raw %}", "{{ a is is b }}", "{{ \xff }}", "{% for x in y %}{% else %}{% else %}{% endfor %}",
             "{{ 1 is nosuch }}", "{{ f(a=1, 2) }}", "{{ x ? }}", "{% macro f(a=1, b) %}{% endmacro %}", "{{ '\\x4' }}",
             "{{ 99999999999999999999999999999999999999999999 }}"}) {
        const auto r = chat_template::parse(source);
        ASSERT_FALSE(r.ok()) << source;
        EXPECT_EQ(r.error().code, errc::model_unsupported) << source;
    }
}

TEST(templates, beyond_the_goldens) {
    EXPECT_EQ(render_text("{{ [1,2,3] | map('string') | join('+') }}"), "1+2+3");
    EXPECT_EQ(
        render_text("{{ '{:>5}|{:<4}|{:^5}|{:05.1f}|{0}'.format('a', 'b', 'c', 2.25) }}"), "    a|b   |  c  |002.2|a");
    EXPECT_EQ(render_text("{% for x in [1,2,2,3] %}{{ loop.changed(x) }} {% endfor %}"), "True True False True ");
    EXPECT_EQ(
        render_text("{{ 'a b  c '.split(none, 1) }}{{ ' a b  c'.rsplit(none, 1) }}"), "['a', 'b  c '][' a b', 'c']");
    EXPECT_EQ(render_text("{{ 'abcabc'.rfind('c') }}{{ 'abcabc'.find('a', 1) }}"), "53");
    EXPECT_EQ(render_text("{% set ns = namespace() %}{% set ns.f = ns %}{{ ns.f.g is defined }}"), "False");
    EXPECT_EQ(render_text("{% macro f() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ f() }}"), "1");
    EXPECT_EQ(render_text(
                  "{% set ns = namespace() %}{% for i in [7,8] %}{% macro f() %}{{ i }}{% endmacro %}{% set ns.f = f %}"
                  "{% endfor %}{{ ns.f() }}"),
        "8");
    EXPECT_EQ(render_text("{{ [1,2,3,4,5] | slice(2) | list }}"), "[[1, 2, 3], [4, 5]]");
    EXPECT_EQ(render_text("{{ 18446744073709551615 + 1 }} {{ 2 ** 126 }}"),
        "18446744073709551616 85070591730234615865843651857942052864");
    EXPECT_EQ(
        render_text("{{ f(*[1], **{'b': 2}) if false }}|{% macro f(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ f(*[1], "
                    "**{'b': 2}) }}"),
        "|12");
    EXPECT_EQ(
        render_text("{{ 'x' | truncate(3) }}{{ 'hello wide world' | truncate(9, false, '...', 0) }}"), "xhello...");
    EXPECT_EQ(render_text("{{ x['a']['b'] }}", {{"x", {{"a", {{"b", "deep"}}}}}}), "deep");
}

TEST(templates, one_template_renders_in_many_threads) {
    const auto parsed = chat_template::parse(template_source("llama-3.1-8b-instruct"));
    ASSERT_TRUE(parsed.ok());
    const json::object context = {{"messages", json::array{{{"role", "user"}, {"content", "hi"}}}},
        {"bos_token", "<s>"}, {"add_generation_prompt", true}};
    const std::string want = join(*(*parsed)->render(context, golden_now));
    std::vector<std::string> got(4);
    std::vector<std::thread> threads;
    for (auto& slot : got) {
        threads.emplace_back([&slot, &parsed, &context] {
            for (int i = 0; i < 50; ++i) slot = join(*(*parsed)->render(context, golden_now));
        });
    }
    for (auto& t : threads) t.join();
    for (const auto& text : got) EXPECT_EQ(text, want);
}

}  // namespace
}  // namespace troupe::model::testing
