// The fuzz entry over truncations and bit flips of real templates, and over inputs that once broke other engines.
#include "tests/fuzz/template_fuzz.hpp"

#include <random>

#include "tests/model/templates/support.hpp"

namespace troupe::model::testing {
namespace {

TEST(template_fuzz, mutations_of_real_templates_neither_crash_nor_hang) {
    std::mt19937 generator(20240726);
    const auto below = [&](std::size_t n) { return generator() % n; };
    int rendered = 0, runs = 0;
    for (const char* name : {"llama-3.1-8b-instruct", "qwen3-coder", "gemma-4-31b-it", "min-chatml", "min-gemma-3",
             "gpt-oss-120b", "deepseek-v3.2", "command-r7b-tool-use", "smollm3-3b", "mistral-small-3.2-24b"}) {
        const std::string source = template_source(name);
        ASSERT_FALSE(source.empty()) << name;
        for (int i = 0; i < 60; ++i) {
            std::string mutant = source;
            if (i % 3 == 0) mutant.resize(below(mutant.size()));
            for (std::size_t flips = i % 3 == 0 ? 0 : 1 + below(4); flips > 0; --flips) {
                mutant[below(mutant.size())] ^= static_cast<char>(1 << below(8));
            }
            if (i % 3 == 2) {
                const std::size_t from = below(mutant.size()), size = below(200);
                mutant.insert(below(mutant.size()), mutant.substr(from, size));
            }
            rendered += fuzz::run_template(mutant) ? 1 : 0;
            ++runs;
        }
    }
    EXPECT_EQ(runs, 600);
    EXPECT_GT(rendered, 50);  // many flips hit plain text only: the mutants do reach the evaluator
}

TEST(template_fuzz, tokens_in_random_order) {
    static const char* pieces[] = {"{{", "}}", "{%", "%}", "{#", "#}", "-", "if", "for", "x", "in", "messages", "endif",
        "endfor", "set", "=", "(", ")", "[", "]", "{", "}", "'a'", "|", "length", "is", "defined", "not", "1", ".", ",",
        ":", "~", "+", "*", "**", "//", "%", "macro", "endmacro", "call", "loop", "range", "\n", "raw", "endraw",
        "tojson", " "};
    std::mt19937 generator(7);
    for (int i = 0; i < 5'000; ++i) {
        std::string source;
        for (unsigned n = generator() % 24; n > 0; --n) {
            source += pieces[generator() % std::size(pieces)];
            source += ' ';
        }
        fuzz::run_template(source);
    }
}

TEST(template_fuzz, known_killers) {
    for (const char* source : {"{{9|9|{", "{{ '' | attr }}", "{{ loop }}", "{{ loop.index }}", "{% set x = x %}{{ x }}",
             "{{ messages[messages] }}", "{{ messages[::0] }}", "{{ {[]: 1} }}", "{{ {}[{}] }}", "{{ (1,)[none] }}",
             "{{ -(-(1)) }}", "{{ 'a'[10**30] }}", "{{ 'a'[-10**30:10**30:10**30] }}", "{{ [1,2][:: -10**30] }}",
             "{{ (-2**127) // -1 }}", "{{ -(-2**126 * 2) | abs }}", "{{ (-(2**126) - 2**126) % -1 }}", "{{ 0 ** -1 }}",
             "{{ 1e999 | int }}", "{{ (1e999 - 1e999) | int }}", "{{ [1e999 - 1e999, 1, 2] | sort }}",
             "{{ 'a' % 'b' }}", "{{ '%' % 1 }}", "{{ '%(a' % {} }}", "{{ '{' .format(1) }}",
             "{{ '{0.__class__}'.format(1) }}", "{{ ''.join(1) }}", "{{ range(1, 2, 0) }}", "{{ dict(1) }}",
             "{{ dict([[1]]) }}", "{{ namespace(1) }}", "{{ cycler() }}", "{{ strftime_now() }}",
             "{{ strftime_now('%') }}", "{{ strftime_now('%999999999d') }}", "{{ caller() }}",
             "{% call x() %}{% endcall %}", "{{ 'x' | map('map') | list }}", "{{ [1] | map('nosuch') | list }}",
             "{{ messages | groupby('role') | map(attribute='list') | list }}", "{{ 5 | round(400) }}",
             "{{ 'a' | int(base=99) }}", "{{ '\xf0\x9f' }}{{ '\xff' | upper }}{{ '\xc3' | tojson }}{{ ['\xe2\x82'] }}",
             "{% for a, b in [1] %}{% endfor %}", "{{ raise_exception() }}", "{{ raise_exception(messages) }}",
             "{{ [] | min }}", "{{ '' | first }}", "{% set messages.x = 1 %}"}) {
        fuzz::run_template(source);
    }
}

}  // namespace
}  // namespace troupe::model::testing
