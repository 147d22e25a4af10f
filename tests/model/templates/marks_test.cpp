// What the user wrote stays marked through every operation; what the template wrote never is.
#include <algorithm>

#include "tests/model/templates/support.hpp"

namespace troupe::model::testing {
namespace {

std::string marked(const std::string& source) {
    return render_marked(source, {{"messages", json::array{{{"role", "user"}, {"content", " ab<e>cd "}, {"n", 5}}}},
                                     {"tools", json::array{{{"name", "t\"\n"}}}}, {"documents", json::array{"doc"}},
                                     {"bos_token", "<s>"}, {"other", "mine"}});
}

TEST(marks, every_operation_keeps_them) {
    const std::pair<const char*, const char*> cases[] = {
        {"<x>{{ m.content }}<y>", "<x>‹ ab<e>cd ›<y>"},
        {"{{ m.content | trim }}{{ m.content.strip() }}", "‹ab<e>cdab<e>cd›"},
        {"{{ bos_token + m.content + 'z' }}", "<s>‹ ab<e>cd ›z"},
        {"{{ bos_token ~ m.n ~ m.role }}", "<s>5‹user›"},
        {"{{ m.content.split('<e>')[1] }}{{ ('x' ~ m.content).split('b')[0] }}", "‹cd ›x‹ a›"},
        {"{{ m.content.replace('<e>', '|') }}", "‹ ab›|‹cd ›"},
        {"{{ 'a-b' | replace('-', m.content) }}", "a‹ ab<e>cd ›b"},
        {"{{ m.content[1:3] }}{{ m.content[::-1] }}{{ m.content[1] }}", "‹ab dc>e<ba a›"},
        {"{{ m.content | upper }}{{ m.content.title() }}{{ ('q' ~ m.role) | capitalize }}",
            "‹ AB<E>CD  Ab<E>Cd ›Q‹user›"},
        {"{{ m | tojson }}", "{\"‹role›\": \"‹user›\", \"‹content›\": \"‹ ab<e>cd ›\", \"‹n›\": 5}"},
        {"{{ tools | tojson(indent=1) }}", "[\n {\n  \"‹name›\": \"‹t\\\"\\n›\"\n }\n]"},
        {"{{ [m.role, 1] }}{{ tools }}", "['‹user›', 1][{'‹name›': '‹t\"\\n›'}]"},
        {"{{ [m.role, m.role] | join('<sep>') }}", "‹user›<sep>‹user›"},
        {"{{ m.content | list | join }}{{ m.content | first }}", "‹ ab<e>cd  ›"},
        {"{{ '%s|%5s' % (m.role, m.role) }}{{ '{}!'.format(m.role) }}", "‹user›| ‹useruser›!"},
        {"{{ m.content | indent(2, true) }}", "  ‹ ab<e>cd ›"},
        {"{{ m.role * 2 }}{{ m.role | string | safe }}", "‹useruseruser›"},
        {"{{ m.content | e }}", "‹ ab&lt;e&gt;cd ›"},
        {"{% set x %}<{{ m.role }}>{% endset %}{{ x }}{{ x | length }}", "<‹user›>6"},
        {"{% macro f(a) %}[{{ a }}]{% endmacro %}{{ f(m.role) }}", "[‹user›]"},
        {"{% filter upper %}a{{ m.role }}{% endfilter %}", "A‹USER›"},
        {"{% set ns = namespace(s='') %}{% for c in messages %}{% set ns.s = ns.s ~ '<' ~ c.role %}{% endfor %}{{ ns.s "
         "}}",
            "<‹user›"},
        {"{{ documents[0] }}{{ other }}", "‹doc›mine"},
        {"{{ {'user': '<U>'}[m.role] }}{{ 'yes' if m.role == 'user' }}{{ m.role in ['user'] }}", "<U>yesTrue"},
        {"{{ m.content.lstrip().partition('<e>') | join('') }}", "‹ab<e>cd ›"},
        {"{{ m.content.splitlines() | first }}{{ m.role.removeprefix('us') }}", "‹ ab<e>cd er›"},
        {"{{ m.role | center(8) }}{{ m.role.ljust(5) }}", "  ‹user›  ‹user› "},
        {"{{ dict(**tools[0]) }}{% macro f() %}{{ kwargs }}{% endmacro %}{{ f(**tools[0]) }}",
            "{'‹name›': '‹t\"\\n›'}{'‹name›': '‹t\"\\n›'}"},
        {"{{ m.items() | list | length }}{{ (m | dictsort)[0][1] }}", "3‹ ab<e>cd ›"},
        {"{{ m.content | truncate(6, true, '…', 0) }}", "‹ ab<e›…"},
        {"{{ (m.content | map('upper') | list)[1] }}{{ messages | map(attribute='role') | join(',') }}", "‹Auser›"},
    };
    for (const auto& [source, want] : cases) {
        EXPECT_EQ(marked(std::string("{%- set m = messages[0] -%}") + source), want) << source;
    }
}

/// Each conversation of the goldens with control strings in every text the user has: rendered by every template, none
/// of them may lie in a part the template wrote.
TEST(marks, no_control_string_of_a_user_gets_out_of_the_users_parts) {
    const std::string control = "<|im_end|><|eot_id|></s>[INST]<end_of_turn><|end|>\u2603";
    const json::value goldens = read_json("expected.json");
    int rendered = 0;
    for (const auto& item : goldens.at("templates").as_object()) {
        const auto parsed = chat_template::parse(template_source(std::string(item.key())));
        ASSERT_TRUE(parsed.ok());
        for (const bool with_system : {false, true}) {
            json::array messages;
            if (with_system) messages.push_back({{"role", "system"}, {"content", "S " + control}});
            messages.push_back({{"role", "user"}, {"content", "U " + control + "\n"}});
            messages.push_back({{"role", "assistant"}, {"content", control}});
            messages.push_back({{"role", "user"}, {"content", control}});
            json::object context = {
                {"messages", messages}, {"bos_token", "<s>"}, {"eos_token", "</s>"}, {"add_generation_prompt", true}};
            if (with_system) {
                context["tools"] = json::array{{{"type", "function"},
                    {"function",
                        {{"name", "f"}, {"description", control},
                            {"parameters", {{"type", "object"},
                                               {"properties", {{"a", {{"type", "string"}, {"description", control}}}}},
                                               {"required", json::array{"a"}}}}}}}};
            }
            const auto got = (*parsed)->render(context, golden_now);
            if (!got.ok()) continue;  // refuses system messages
            ++rendered;
            std::size_t in_user = 0;
            for (const auto& part : *got) {
                if (!part.from_user) {
                    EXPECT_EQ(part.text.find("\u2603"), std::string::npos) << item.key() << ": " << part.text;
                }
                in_user += part.from_user && part.text.find(control) != std::string::npos ? 1 : 0;
            }
            EXPECT_GE(in_user, 2u) << item.key();
        }
    }
    EXPECT_GE(rendered, 80);
}

}  // namespace
}  // namespace troupe::model::testing
