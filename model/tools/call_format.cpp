// Free text is every text in which no call begins: at each character the rules know how much of the beginning has been
// written.
#include "model/tools/call_format.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "core/check.hpp"
#include "core/limits.hpp"
#include "model/grammar/gbnf.hpp"
#include "model/grammar/json_schema.hpp"

namespace troupe::model {
namespace json = boost::json;
namespace {

constexpr std::size_t longest_name = 64;

constexpr call_text hermes_text{"<tool_call>", "<tool_call>\n{\"name\": \"", "\", \"arguments\": ", "}\n</tool_call>"};
constexpr call_text llama3_text{"{\"name\": \"", "{\"name\": \"", "\", \"parameters\": ", "}"};

error wrong(std::string message, std::string param = "tools") {
    return fail(errc::invalid_request, param + ": " + std::move(message), param);
}

bool is_name(std::string_view s) {
    return !s.empty() && s.size() <= longest_name && std::all_of(s.begin(), s.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
               c == '.';
    });
}

std::string not_of(const std::string& characters) {
    std::vector<code_range> ranges;
    for (const char c : characters) ranges.push_back({static_cast<unsigned char>(c), static_cast<unsigned char>(c)});
    return gbnf_class(complement(normalized(std::move(ranges))));
}

/// Any text in which `trigger` does not occur; where it is complete, `then` follows and nothing else.
std::string text_until(std::string_view trigger, const std::string& then, rule_book& rules) {
    std::string letters;
    for (const char c : trigger)
        if (letters.find(c) == std::string::npos) letters += c;
    std::vector<std::string> names;
    for (std::size_t i = 0; i < trigger.size(); ++i) names.push_back(rules.reserve());
    for (std::size_t i = 0; i < trigger.size(); ++i) {
        std::string body = not_of(letters) + " " + names[0];
        for (const char c : letters) {
            const auto written = std::string(trigger.substr(0, i)) + c;
            auto matched = std::min(written.size(), trigger.size());
            while (!std::string_view(written).ends_with(trigger.substr(0, matched))) --matched;
            const auto& next = matched == trigger.size() ? then : names[matched];
            body += " | " + gbnf_literal(std::string_view(&c, 1)) + " " + next;
        }
        rules.set(names[i], "(" + body + ")?");
    }
    return names[0];
}

/// Any text that begins with none of the keys; after a complete key its rule follows and nothing else. No key begins
/// another.
std::string text_beside(const std::map<std::string, std::string>& ways, std::size_t at, rule_book& rules) {
    std::map<char, std::map<std::string, std::string>> next;
    for (const auto& [key, rule] : ways) {
        if (key.size() == at) return rule;
        next[key[at]].emplace(key, rule);
    }
    std::string letters;
    std::string body;
    for (const auto& [c, list] : next) {
        letters += c;
        body += " | " + gbnf_literal(std::string_view(&c, 1)) + " " + text_beside(list, at + 1, rules);
    }
    return rules.define("(" + not_of(letters) + " .*" + body + ")?");
}

}  // namespace

const call_text& text_of(call_style style) {
    CHECK(style != call_style::unknown, "a style of calls that is not known has no text");
    return style == call_style::hermes ? hermes_text : llama3_text;
}

result<std::vector<tool>> read_tools(const json::array& list) {
    if (list.size() > static_cast<std::size_t>(limits::max_tools))
        return wrong(fmt::format("more than {}", limits::max_tools));
    std::vector<tool> tools;
    for (const auto& item : list) {
        const auto* o = item.if_object();
        const auto* type = o ? o->if_contains("type") : nullptr;
        const auto* function = o ? o->if_contains("function") : nullptr;
        if (!type || !type->is_string() || type->get_string() != "function" || !function || !function->is_object())
            return wrong("each must be {\"type\": \"function\", \"function\": {...}}");
        const auto& f = function->get_object();
        const auto* name = f.if_contains("name");
        if (!name || !name->is_string() || !is_name(std::string_view(name->get_string())))
            return wrong("a function's name must be 1 to 64 of A-Z a-z 0-9 _ - .");
        tool t{std::string(name->get_string()), nullptr};
        if (const auto* p = f.if_contains("parameters"); p && !p->is_null()) {
            if (!p->is_object()) return wrong("'parameters' of '" + t.name + "' must be a JSON schema");
            t.parameters = *p;
        }
        for (const auto& other : tools)
            if (other.name == t.name) return wrong("'" + t.name + "' is there twice");
        tools.push_back(std::move(t));
    }
    return tools;
}

result<std::string> grammar_of_tools(
    const std::vector<tool>& tools, call_style style, const std::string& choice, bool parallel) {
    const auto& text = text_of(style);
    const bool named = choice != "auto" && choice != "required";
    rule_book rules;
    std::map<std::string, std::string> calls;  // what a call begins with -> arguments and end
    for (const auto& t : tools) {
        if (named && t.name != choice) continue;
        std::string arguments = "\"{}\"";
        if (!t.parameters.is_null()) {
            auto rule = add_schema(t.parameters, rules, "tools", true);
            if (!rule) {
                auto e = rule.error();
                e.message += " (parameters of '" + t.name + "')";
                return e;
            }
            arguments = *rule;
        }
        calls.emplace(std::string(text.begin) + t.name + std::string(text.middle),
            rules.define(arguments + " " + gbnf_literal(text.end)));
    }
    if (calls.empty()) return wrong("there is no tool '" + choice + "'", "tool_choice");
    std::vector<std::string> ways;
    for (const auto& [begin, rest] : calls)
        ways.push_back(gbnf_literal(begin.substr(style == call_style::hermes ? text.trigger.size() : 0)) + " " + rest);
    auto call = rules.define(fmt::format("{}", fmt::join(ways, " | ")));
    const bool any = choice == "auto";
    std::string root;
    if (style == call_style::llama3) {
        root = any ? text_beside(calls, 0, rules) : call;
    } else {
        const auto trigger = gbnf_literal(text.trigger);
        // At most sixteen: a weak model may repeat a call for ever.
        if (parallel) call = rules.define(call + " (\"\\n\" " + trigger + " " + call + "){0,15}");
        root = any ? text_until(text.trigger, call, rules) : trigger + " " + call;
    }
    auto grammar = rules.text(root);
    const auto checked = parse_gbnf(grammar);
    if (!checked) return wrong("no arguments satisfy a schema, or the grammar is too large");
    return grammar;
}

}  // namespace troupe::model
