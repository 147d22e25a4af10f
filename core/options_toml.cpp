// TOML files for the option table, in a file of its own because toml++ is slow to compile.
#include <sstream>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "core/options.hpp"

namespace troupe {
namespace {

const option* by_key(std::string_view key) {
    for (const auto& o : options())
        if (o.key() == key) return &o;
    return nullptr;
}

result<std::string> scalar_text(const toml::node& node, std::string_view key) {
    if (const auto* s = node.as_string()) return s->get();
    if (const auto* i = node.as_integer()) return std::to_string(i->get());
    if (const auto* d = node.as_floating_point()) return fmt::format("{}", d->get());
    if (const auto* b = node.as_boolean()) return std::string(b->get() ? "true" : "false");
    return fail(errc::usage, fmt::format("{}: a text, a number or true/false is expected", key), std::string(key));
}

result<void> apply_node(config& c, const option& o, const toml::node& node) {
    if (const auto* list = node.as_array()) {
        if (!o.repeatable())
            return fail(errc::usage, fmt::format("{}: one value is expected, not a list", o.key()), o.key());
        c.*std::get<option::text_list config::*>(o.where) = {};
        for (const auto& element : *list) {
            TROUPE_TRY(const auto text, scalar_text(element, o.key()));
            TROUPE_TRYV(set_option(c, o, text));
        }
        return {};
    }
    TROUPE_TRY(auto text, scalar_text(node, o.key()));
    const bool is_text = std::holds_alternative<std::string config::*>(o.where) || o.repeatable() ||
                         std::holds_alternative<std::uint64_t config::*>(o.where);
    if (!is_text && node.is_string() && o.choices.empty())
        return fail(
            errc::usage, fmt::format("{}: '{}' is a text; a number or true/false is expected", o.key(), text), o.key());
    if (o.repeatable()) c.*std::get<option::text_list config::*>(o.where) = {};
    return set_option(c, o, text);
}

}  // namespace

result<void> apply_toml(config& c, std::string_view text, std::string_view file_name) {
    toml::table table;
    try {
        table = toml::parse(text, file_name);
    } catch (const toml::parse_error& e) {
        return fail(errc::usage, fmt::format("{}:{}: {}", file_name, e.source().begin.line, e.description()), "config");
    }
    for (const auto& [key, node] : table) {
        const auto* o = by_key(key.str());
        if (!o)
            return fail(errc::usage, fmt::format("{}: unknown key '{}'", file_name, key.str()), std::string(key.str()));
        if (auto set = apply_node(c, *o, node); !set)
            return fail(errc::usage, fmt::format("{}: {}", file_name, set.error().message), set.error().param);
    }
    return {};
}

}  // namespace troupe
