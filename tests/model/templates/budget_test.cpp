// Hostile templates end in a typed error, soon and within the memory they were given.
#include <string>

#include "tests/model/templates/support.hpp"

namespace troupe::model::testing {
namespace {

std::string repeat(const std::string& s, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += s;
    return out;
}

TEST(budget, hostile_nesting_is_refused_at_parse) {
    const int n = 10'000;
    const std::string sources[] = {
        "{{ " + repeat("(", n) + "1" + repeat(")", n) + " }}",
        "{{ " + repeat("[", n) + repeat("]", n) + " }}",
        "{{ " + repeat("{'a':", n) + "1" + repeat("}", n) + " }}",
        "{{ " + repeat("not ", n) + "1 }}",
        "{{ " + repeat("-", n) + "1 }}",
        "{{ " + repeat("1 if 1 else ", n) + "1 }}",
        "{{ 1" + repeat("+1", n) + " }}",
        "{{ 1" + repeat("|abs", n) + " }}",
        "{{ a" + repeat(".a", n) + " }}",
        "{{ a" + repeat("[0]", n) + " }}",
        "{{ a" + repeat("()", n) + " }}",
        "{{ 1" + repeat(" if 1", n) + " }}",
        "{{ 1" + repeat(" and 1", n) + " }}",
        "{{ 2" + repeat("**2", n) + " }}",
        "{{ " + repeat("f(", n),
        "{{ " + repeat("a[", n),
        repeat("{% if 1 %}", n) + repeat("{% endif %}", n),
        repeat("{% for x in y %}", n),
        repeat("{% macro f() %}", n),
        repeat("{% filter upper %}", n),
        repeat("{% set x %}", n),
        "{% set " + repeat("(", n) + "x" + repeat(")", n) + " = 1 %}",
        "{% filter upper" + repeat("|upper", n) + " %}{% endfilter %}",
    };
    for (const auto& source : sources) {
        const auto r = chat_template::parse(source);
        ASSERT_FALSE(r.ok()) << source.substr(0, 40);
        EXPECT_EQ(r.error().code, errc::model_unsupported) << source.substr(0, 40);
    }
}

TEST(budget, long_but_flat_templates_are_fine) {
    EXPECT_EQ(render_text("{{ 1" + repeat("~1", 9'999) + " }}"), std::string(10'000, '1'));
    EXPECT_EQ(render_text(repeat("{% if 0 %}{% elif 1 %}a{% endif %}", 5'000)), std::string(5'000, 'a'));
    EXPECT_EQ(render_text("{{ [" + repeat("1,", 5'000) + "] | length }}"), "5000");
    EXPECT_EQ(render_text("{{ 0" + repeat("+1", 500) + " }}"), "500");
}

/// Small budgets, so that the bound and not the machine ends each; the error is the client's.
TEST(budget, hostile_work_ends_in_an_error) {
    const template_budget small{.steps = 200'000, .depth = 64, .output_bytes = 1 << 20};
    const char* sources[] = {
        "{{ range(10**9) | length }}",
        "{{ range(100000) | list + range(100000) | list + range(100000) | list }}",
        "{{ 'x' * 10**9 }}",
        "{{ 'x' * 10**30 }}",
        "{{ [0] * 10**9 }}",
        "{{ 'x' | center(10**9) }}",
        "{{ 'x'.ljust(10**15) }}",
        "{{ 'x'.zfill(10**9) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%.1000000000f' % 1.5 }}",
        "{{ '{:>999999999}'.format(1) }}",
        "{{ [1] | tojson(indent=10**9) | length if 0 else [[[[[[1]]]]]] | tojson(indent='xxxxxxxxxx' * 100000) }}",
        "{{ 'a\nb' | indent(10**9) }}",
        "{{ [1] | batch(10**9, 0) | list }}",
        "{{ [1] | slice(10**9) | list }}",
        "{{ 2 ** (10**9) }}",
        "{{ 10 ** 38 * 10 ** 38 }}",
        "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
        "{% set ns = namespace(s=[1], t=[1]) %}{% for i in range(100) %}{% set ns.s = [ns.s, ns.s] %}{% set ns.t = "
        "[ns.t, ns.t] %}"
        "{% endfor %}{{ ns.s == ns.t }}",
        "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s.replace('', ns.s) %}{% endfor %}",
        "{% set ns = namespace(s={}) %}{% for i in range(1000) %}{% set ns.s = {'a': ns.s} %}{% endfor %}",
        "{% set ns = namespace(s={}) %}{% for i in range(1000) %}{% set ns.s = {'a': ns.s.get} %}{% endfor %}",
        "{% set ns = namespace(s=1) %}{% for i in range(1000) %}{% for x in [ns.s] %}{% set ns.s = loop %}{% endfor "
        "%}{% "
        "endfor %}",
        "{% for i in range(1000) %}{% for j in range(1000) %}{% for k in range(1000) %}{% endfor %}{% endfor %}{% "
        "endfor "
        "%}",
        "{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f(n) %}{{ f(n + 1) ~ f(n + 1) }}{% endmacro %}{{ f(0) }}",
        "{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
        "{% set x = 'a' * 1000000 %}{% for i in range(100000) %}{{ ('b' in x) ~ '' }}{% endfor %}",
        "{% set x = 'a' * 1000000 %}{% for i in range(100000) %}{% if x == x ~ '' %}{% endif %}{% endfor %}",
        "{% set x = range(100000) | list %}{% for i in x %}{% if 7000000 in x %}{% endif %}{% endfor %}",
        "{{ range(100000) | map('string') | map('list') | map('join') | unique | list | length }}",
        "{{ strftime_now('%Y' * 100000) }}",
    };
    for (const char* source : sources) {
        const auto r = render(source, {}, small);
        ASSERT_FALSE(r.ok()) << source;
        EXPECT_EQ(r.error().code, errc::invalid_request) << source << " " << r.error().message;
    }
}

TEST(budget, many_namespaces_macros_and_scopes_are_taken_down_without_recursion) {
    // Chains and circles through namespaces and closures: the render must end and free them (ASan watches).
    EXPECT_EQ(render_text("{% set ns = namespace(n=0) %}{% for i in range(50000) %}{% set ns.n = namespace(up=ns.n) %}"
                          "{% endfor %}ok"),
        "ok");
    EXPECT_EQ(render_text("{% set ns = namespace() %}{% for i in range(20000) %}{% macro f() %}{{ i }}{% endmacro %}"
                          "{% set ns.f = f %}{% endfor %}{{ ns.f() }}"),
        "19999");
    EXPECT_EQ(
        render_text("{% set ns = namespace() %}{% set ns.me = ns %}{% for x in [ns] recursive %}{% set ns.l = loop %}"
                    "{% endfor %}ok"),
        "ok");
    EXPECT_EQ(render_text("{% set ns = namespace() %}{% macro g() %}{% for x in [1] recursive %}{% if not ns.l %}"
                          "{% set ns.l = loop %}{% endif %}{{ x }}{% endfor %}{% endmacro %}{{ g() }}{{ ns.l([7]) }}"),
        "17");
}

TEST(budget, deep_data_is_refused) {
    json::value deep = 1;
    for (int i = 0; i < 400; ++i) deep = json::array{deep};
    const auto r = render("{{ messages }}", {{"messages", deep}});
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().code, errc::invalid_request);
}

TEST(budget, long_conversations_fit_the_default_budget) {
    json::array messages;
    const std::string content(2'000, 'x');
    for (int i = 0; i < 1'000; ++i)
        messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", content}});
    for (const char* name : {"llama-3.1-8b-instruct", "qwen3-0.6b", "min-gemma-3", "min-deepseek-v3", "min-chatml"}) {
        const auto parsed = chat_template::parse(template_source(name));
        ASSERT_TRUE(parsed.ok());
        const auto r =
            (*parsed)->render({{"messages", messages}, {"bos_token", "<s>"}, {"eos_token", "</s>"}}, golden_now);
        ASSERT_TRUE(r.ok()) << name << ": " << r.error().message;
        EXPECT_GT(join(*r).size(), 1'000'000u);
    }
}

}  // namespace
}  // namespace troupe::model::testing
