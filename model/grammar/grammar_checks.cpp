// Both properties spread from the leaves in linear time, so that no grammar takes long to refuse.
#include "model/grammar/grammar_checks.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace troupe::model {
namespace {

using kind = grammar::kind;

error wrong(std::string message) { return fail(errc::invalid_request, "grammar: " + std::move(message), "grammar"); }

/// Which expressions hold of `leaf`, and thereby: sequences all of whose parts hold, choices and repetitions one part
/// of which does, and references to rules whose bodies do.
template <class Leaf> std::vector<bool> spread(const grammar& g, Leaf&& leaf) {
    const auto n = g.expressions.size();
    std::vector<std::vector<std::uint32_t>> users(n);
    std::vector<std::vector<std::uint32_t>> rules_of_body(n), users_of_rule(g.rules.size());
    std::vector<std::size_t> missing(n);
    std::vector<bool> holds(n);
    std::vector<std::uint32_t> pending;
    for (std::uint32_t i = 0; i < n; ++i) {
        const auto& e = g.expressions[i];
        for (const auto p : e.parts) users[p].push_back(i);
        if (e.what == kind::rule) users_of_rule[e.rule].push_back(i);
        missing[i] = e.what == kind::sequence ? e.parts.size() : 1;
        if (leaf(e) || (e.what == kind::sequence && e.parts.empty())) {
            holds[i] = true;
            pending.push_back(i);
        }
    }
    for (std::uint32_t r = 0; r < g.rules.size(); ++r) rules_of_body[g.rules[r].body].push_back(r);
    const auto reached = [&](std::uint32_t i) {
        if (holds[i] || --missing[i] > 0) return;
        holds[i] = true;
        pending.push_back(i);
    };
    while (!pending.empty()) {
        const auto i = pending.back();
        pending.pop_back();
        for (const auto u : users[i]) reached(u);
        for (const auto r : rules_of_body[i])
            for (const auto u : users_of_rule[r]) reached(u);
    }
    return holds;
}

/// Rules that may stand at the very beginning of an expression.
void leftmost(const grammar& g, std::uint32_t i, std::vector<std::uint32_t>& out) {
    const auto& e = g.expressions[i];
    if (e.what == kind::rule) out.push_back(e.rule);
    if (e.what == kind::repeat && e.max == 0) return;
    for (const auto p : e.parts) {
        leftmost(g, p, out);
        if (e.what == kind::sequence && !g.expressions[p].nullable) return;
    }
}

result<void> check_recursion(const grammar& g) {
    enum class colour : std::uint8_t { fresh, open, done };
    std::vector<colour> seen(g.rules.size(), colour::fresh);
    struct frame {
        std::uint32_t rule;
        std::vector<std::uint32_t> next;
    };
    std::vector<frame> path;
    const auto enter = [&](std::uint32_t r) {
        seen[r] = colour::open;
        path.push_back({r, {}});
        leftmost(g, g.rules[r].body, path.back().next);
    };
    for (std::uint32_t r = 0; r < g.rules.size(); ++r) {
        if (seen[r] != colour::fresh) continue;
        enter(r);
        while (!path.empty()) {
            auto& top = path.back();
            if (top.next.empty()) {
                seen[top.rule] = colour::done;
                path.pop_back();
                continue;
            }
            const auto to = top.next.back();
            top.next.pop_back();
            if (seen[to] == colour::open)
                return wrong(fmt::format("rule '{}' is left-recursive: it may begin with itself", g.rules[to].name));
            if (seen[to] == colour::fresh) enter(to);
        }
    }
    return {};
}

}  // namespace

result<void> check_grammar(grammar& g) {
    const auto root = std::find_if(g.rules.begin(), g.rules.end(), [](const auto& r) { return r.name == "root"; });
    if (root == g.rules.end() || !root->defined) return wrong("there is no rule 'root'");
    for (const auto& r : g.rules)
        if (!r.defined) return wrong(fmt::format("rule '{}' is not defined", r.name));
    g.root = static_cast<std::uint32_t>(root - g.rules.begin());
    const auto optional = [](const auto& e) { return e.what == kind::repeat && e.min == 0; };
    const auto nullable =
        spread(g, [&](const auto& e) { return optional(e) || (e.what == kind::literal && e.text.empty()); });
    const auto productive =
        spread(g, [&](const auto& e) { return optional(e) || e.what == kind::literal || e.what == kind::set; });
    for (std::size_t i = 0; i < g.expressions.size(); ++i) {
        g.expressions[i].nullable = nullable[i];
        g.expressions[i].productive = productive[i];
    }
    TROUPE_TRYV(check_recursion(g));
    if (!g.expressions[root->body].productive) return wrong("no finite text matches 'root'");
    return {};
}

}  // namespace troupe::model
