// A request says one thing about the form of its answer; two are a contradiction, not a priority.
#include "net/output_format.hpp"

#include <fmt/format.h>

namespace troupe::net {
namespace {

constexpr std::string_view any_object = R"({"type":"object"})";

error wrong(std::string_view name, std::string_view expected) {
    return fail(errc::invalid_request, fmt::format("'{}' must be {}", name, expected), std::string(name));
}
error unavailable(std::string_view name, std::string_view what) {
    return fail(
        errc::unsupported_parameter, fmt::format("{} is not available in this version", what), std::string(name));
}

/// Takes down the one format a request asks for.
class format_reader {
 public:
    explicit format_reader(generation_params& p) : p_(p) {}

    result<void> schema(std::string_view field, simdjson::dom::element e) {
        if (!e.is_object() && !e.is_bool()) return wrong(field, "a JSON schema");
        return take(field, p_.json_schema, to_json(e));
    }
    result<void> take(std::string_view field, std::optional<std::string>& to, std::string text) {
        if (p_.format_field)
            return fail(errc::invalid_request,
                fmt::format("'{}' and '{}' cannot be given together", *p_.format_field, field), std::string(field));
        to = std::move(text);
        p_.format_field = std::string(field);
        return {};
    }

    result<void> response_format(simdjson::dom::element e) {
        constexpr std::string_view field = "response_format";
        TROUPE_TRY(const auto o, json_object::from(e, "'response_format'"));
        TROUPE_TRY(const auto type, o.text("type"));
        if (!type) return wrong(field, "an object with a 'type'");
        const auto own = o.find("schema");  // llama-server's spelling
        if (*type == "text") {
            if (!p_.format_field) p_.json_schema = "";
            return {};
        }
        if (*type == "json_object")
            return own ? schema(field, *own) : take(field, p_.json_schema, std::string(any_object));
        if (*type != "json_schema") return unavailable(field, fmt::format("response_format '{}'", *type));
        if (own) return schema(field, *own);
        const auto inner = o.find("json_schema");
        if (!inner || !inner->is_object()) return wrong(field, "an object with 'json_schema'");
        TROUPE_TRY(const auto described, json_object::from(*inner, "'response_format'"));
        const auto s = described.find("schema");
        if (!s) return wrong(field, "an object with 'json_schema.schema'");
        return schema(field, *s);
    }

    result<void> structured_outputs(simdjson::dom::element e) {
        constexpr std::string_view field = "structured_outputs";
        TROUPE_TRY(const auto o, json_object::from(e, "'structured_outputs'"));
        for (const auto item : o.raw()) {
            if (item.value.is_null()) continue;
            if (item.key == "json") {
                TROUPE_TRYV(schema_or_text(field, item.value));
            } else if (item.key == "grammar") {
                std::string_view text;
                if (item.value.get(text)) return wrong(field, "an object whose 'grammar' is GBNF");
                TROUPE_TRYV(take(field, p_.grammar, std::string(text)));
            } else if (item.key == "json_object") {
                bool on = false;
                if (item.value.get(on)) return wrong(field, "an object whose 'json_object' is true or false");
                if (on) {
                    TROUPE_TRYV(take(field, p_.json_schema, std::string(any_object)));
                }
            } else {
                return unavailable(field, fmt::format("structured_outputs '{}'", item.key));
            }
        }
        return {};
    }

    /// vLLM takes a schema as JSON text, too.
    result<void> schema_or_text(std::string_view field, simdjson::dom::element e) {
        std::string_view text;
        if (!e.get(text)) return take(field, p_.json_schema, std::string(text));
        return schema(field, e);
    }

 private:
    generation_params& p_;
};

result<std::string> read_choice(simdjson::dom::element e) {
    std::string_view word;
    if (!e.get(word)) {
        if (word == "auto" || word == "none" || word == "required") return std::string(word);
        return wrong("tool_choice", "auto, none, required or the name of a function in an object");
    }
    TROUPE_TRY(const auto o, json_object::from(e, "'tool_choice'"));
    TROUPE_TRY(const auto type, o.text("type"));
    const auto function = o.find("function");
    if (type != "function" || !function || !function->is_object())
        return wrong("tool_choice", R"({"type": "function", "function": {"name": ...}})");
    TROUPE_TRY(const auto f, json_object::from(*function, "'tool_choice'"));
    TROUPE_TRY(const auto name, f.text("name"));
    if (!name || name->empty() || *name == "auto" || *name == "required")
        return wrong("tool_choice", "an object with the name of a function");
    return *name;
}

}  // namespace

result<void> read_output_format(const json_object& o, generation_params& p) {
    format_reader r(p);
    if (const auto e = o.find("response_format")) {
        TROUPE_TRYV(r.response_format(*e));
    }
    if (const auto e = o.find("grammar")) {
        std::string_view text;
        if (e->get(text)) return wrong("grammar", "a string of GBNF");
        if (!text.empty()) {
            TROUPE_TRYV(r.take("grammar", p.grammar, std::string(text)));
        }
    }
    if (const auto e = o.find("json_schema")) {
        TROUPE_TRYV(r.schema("json_schema", *e));
    }
    if (const auto e = o.find("guided_json")) {
        TROUPE_TRYV(r.schema_or_text("guided_json", *e));
    }
    if (const auto e = o.find("structured_outputs")) {
        TROUPE_TRYV(r.structured_outputs(*e));
    }
    return {};
}

result<void> read_tools(const json_object& o, completion_request& r) {
    const auto e = o.find("tools");
    simdjson::dom::array list;
    if (e && e->get(list)) return wrong("tools", "a list");
    const bool some = e && list.size() > 0;
    std::string choice = "auto";
    if (const auto c = o.find("tool_choice")) {
        TROUPE_TRY(choice, read_choice(*c));
    }
    TROUPE_TRY(const auto parallel, o.boolean("parallel_tool_calls"));
    if (!some) {
        if (choice != "auto" && choice != "none") return wrong("tool_choice", "auto or none where there are no tools");
        return {};
    }
    if (choice == "none") return {};
    r.tools = to_json(*e);
    r.tool_choice = choice;
    r.parallel_tool_calls = parallel.value_or(true);
    return {};
}

}  // namespace troupe::net
