// Everything is parsed and built here once, so that what reaches the executor is known to be good.
#include "actors/tokenizer/output_rules.hpp"

#include "core/limits.hpp"
#include "model/grammar/automaton.hpp"
#include "model/grammar/json_schema.hpp"

namespace troupe::actors {
namespace json = boost::json;

result<std::string> grammar_for(const constrain_output& c) {
    const auto about = [&](error e) {
        e.param = c.field;
        return e;
    };
    std::string source;
    if (c.grammar) {
        source = *c.grammar;
    } else {
        TROUPE_TRY(source, model::grammar_of_schema(c.json_schema.value_or(""), c.field));
    }
    const auto parsed = model::parse_gbnf(source);
    if (!parsed) return about(parsed.error());
    if (const auto machine = model::build_automaton(*parsed); !machine) return about(machine.error());
    return source;
}

result<json::array> parse_tools(const std::string& tools) {
    const auto bad = [](const char* what) { return fail(errc::invalid_request, what, "tools"); };
    if (tools.size() > limits::max_schema_bytes) return bad("tools: the list is too large");
    boost::system::error_code ec;
    json::parse_options depth;
    depth.max_depth = limits::max_json_depth;
    auto v = json::parse(tools, ec, {}, depth);
    if (ec || !v.is_array()) return bad("tools must be a list");
    return std::move(v.get_array());
}

result<call_rules> rules_for_tools(const render_chat& r, model::call_style style) {
    if (style == model::call_style::unknown)
        return fail(errc::unsupported_parameter,
            "tools: this model's template writes tool calls in a form that this version does not read", "tools");
    TROUPE_TRY(const auto list, parse_tools(r.tools));
    TROUPE_TRY(const auto tools, model::read_tools(list));
    call_rules rules{style, {}, {}};
    for (const auto& t : tools) rules.names.push_back(t.name);
    TROUPE_TRY(rules.grammar, model::grammar_of_tools(tools, style, r.tool_choice, r.parallel_tool_calls));
    const auto parsed = model::parse_gbnf(rules.grammar);
    if (!parsed || !model::build_automaton(*parsed))
        return fail(errc::unsupported_parameter, "tools: the schemas make too large a grammar", "tools");
    return rules;
}

}  // namespace troupe::actors
