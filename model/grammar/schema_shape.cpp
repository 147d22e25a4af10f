// Keyword by keyword; what is not listed here is refused.
#include "model/grammar/schema_shape.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_set>

#include <fmt/format.h>

namespace troupe::model {
namespace json = boost::json;
namespace {

constexpr std::size_t most_shapes = 256;
constexpr std::size_t most_steps = 200'000;
constexpr std::size_t most_listed = 4096;  ///< values of one enum, branches of one choice, names of one object

error unsupported(const std::string& what, const std::string& path) {
    return fail(errc::unsupported_parameter, fmt::format("{} at {} is not supported", what, path));
}
error malformed(const std::string& what, const std::string& path) {
    return fail(errc::invalid_request, fmt::format("{} at {}", what, path));
}

/// Keywords that describe and do not restrict.
const std::unordered_set<std::string> annotations{"title", "description", "default", "example", "examples", "$schema",
    "$comment", "deprecated", "readOnly", "writeOnly", "contentMediaType", "contentEncoding", "contentSchema", "$defs",
    "definitions", "discriminator", "externalDocs", "$anchor", "strict"};

std::optional<long double> number_of(const json::value& v) {
    if (v.is_int64()) return static_cast<long double>(v.get_int64());
    if (v.is_uint64()) return static_cast<long double>(v.get_uint64());
    if (v.is_double() && std::isfinite(v.get_double())) return static_cast<long double>(v.get_double());
    return std::nullopt;
}

result<std::int64_t> count_of(const json::value& v, const std::string& name, const std::string& path) {
    const auto n = number_of(v);
    if (!n || *n < 0 || *n != std::floor(*n)) return malformed("'" + name + "' is no count", path);
    constexpr long double most = 1e9L;
    return static_cast<std::int64_t>(std::min(*n, most));
}

std::string unescaped(std::string_view token) {
    std::string out;
    for (std::size_t i = 0; i < token.size(); ++i) {
        unsigned value = 0;
        if (token[i] == '%' && i + 2 < token.size() &&
            std::from_chars(token.data() + i + 1, token.data() + i + 3, value, 16).ptr == token.data() + i + 3) {
            out += static_cast<char>(value);
            i += 2;
        } else {
            out += token[i];
        }
    }
    std::string r;
    for (std::size_t i = 0; i < out.size(); ++i) {
        if (out[i] == '~' && i + 1 < out.size() && (out[i + 1] == '0' || out[i + 1] == '1'))
            r += out[++i] == '0' ? '~' : '/';
        else
            r += out[i];
    }
    return r;
}

unsigned type_named(std::string_view name) {
    if (name == "null") return json_types::null;
    if (name == "boolean") return json_types::boolean;
    if (name == "integer") return json_types::integer;
    if (name == "number") return json_types::number;
    if (name == "string") return json_types::string;
    if (name == "array") return json_types::array;
    return name == "object" ? json_types::object : 0;
}

result<unsigned> types_of(const json::value& v, const std::string& path) {
    unsigned types = 0;
    const auto add = [&](const json::value& name) {
        const auto t = name.is_string() ? type_named(std::string_view(name.get_string())) : 0;
        types |= t;
        return t != 0;
    };
    bool good = true;
    if (v.is_array())
        for (const auto& name : v.get_array()) good = add(name) && good;
    else
        good = add(v);
    if (!good || types == 0) return malformed("'type' names no JSON type", path);
    return types;
}

void narrow(std::optional<std::vector<json::value>>& values, std::vector<json::value> more) {
    if (!values) {
        values = std::move(more);
        return;
    }
    std::erase_if(*values, [&](const json::value& v) {
        return std::none_of(more.begin(), more.end(), [&](const auto& m) { return schema_reader::equal(v, m); });
    });
}

std::size_t code_points(std::string_view s) {
    return static_cast<std::size_t>(
        std::count_if(s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

bool schema_reader::equal(const json::value& a, const json::value& b) {
    const auto x = number_of(a), y = number_of(b);
    if (x || y) return x && y && *x == *y;
    if (a.is_array() && b.is_array()) {
        const auto &p = a.get_array(), &q = b.get_array();
        return p.size() == q.size() && std::equal(p.begin(), p.end(), q.begin(), &schema_reader::equal);
    }
    if (a.is_object() && b.is_object()) {
        const auto &p = a.get_object(), &q = b.get_object();
        return p.size() == q.size() && std::all_of(p.begin(), p.end(), [&](const auto& item) {
            const auto* other = q.if_contains(item.key());
            return other && equal(item.value(), *other);
        });
    }
    return a == b;
}

unsigned schema_reader::type_of(const json::value& v) {
    if (v.is_null()) return json_types::null;
    if (v.is_bool()) return json_types::boolean;
    if (v.is_string()) return json_types::string;
    if (v.is_array()) return json_types::array;
    if (v.is_object()) return json_types::object;
    const auto n = number_of(v);
    return n && *n == std::floor(*n) ? json_types::integer : json_types::fraction;
}

result<schema_place> schema_reader::resolve(const std::string& ref, const std::string& from) const {
    if (ref.empty() || ref[0] != '#' || (ref.size() > 1 && ref[1] != '/'))
        return unsupported("'$ref' to '" + ref + "' (only \"#/...\" within the schema is)", from);
    const json::value* at = &document_;
    std::string_view rest = std::string_view(ref).substr(1);
    while (!rest.empty()) {
        rest.remove_prefix(1);
        const auto end = std::min(rest.find('/'), rest.size());
        const auto token = unescaped(rest.substr(0, end));
        rest.remove_prefix(end);
        const json::value* next = nullptr;
        if (at->is_object()) next = at->get_object().if_contains(token);
        if (at->is_array()) {
            std::size_t i = 0;
            const auto [p, ec] = std::from_chars(token.data(), token.data() + token.size(), i);
            if (ec == std::errc{} && p == token.data() + token.size() && i < at->get_array().size())
                next = &at->get_array()[i];
        }
        if (!next) return malformed("'$ref' names nothing: " + ref, from);
        at = next;
    }
    return schema_place{at, ref};
}

result<void> schema_reader::absorb(
    const schema_place& at, schema_shape& s, std::vector<const json::value*>& path) const {
    if (++steps_ > most_steps) return unsupported("so complex a schema", at.path);
    if (s.path.empty()) s.path = at.path;
    if (at.schema->is_bool()) {
        s.never = s.never || !at.schema->get_bool();
        return {};
    }
    if (!at.schema->is_object()) return malformed("a schema must be an object, true or false", at.path);
    if (std::find(path.begin(), path.end(), at.schema) != path.end())
        return malformed("a schema that refers to itself without an end", at.path);
    if (path.size() > 64) return unsupported("so long a chain of references", at.path);
    path.push_back(at.schema);
    const auto& o = at.schema->get_object();
    if (o.contains("properties") || o.contains("additionalProperties")) {
        schema_shape::object_source source{nullptr, o.if_contains("additionalProperties"), at.path};
        if (const auto* p = o.if_contains("properties")) {
            if (!p->is_object()) return malformed("'properties' is no object", at.path);
            if (p->get_object().size() > most_listed / 2) return unsupported("so many properties", at.path);
            source.properties = &p->get_object();
        }
        s.implied |= json_types::object;
        s.objects.push_back(source);
    }
    if (o.contains("items") || o.contains("prefixItems")) {
        schema_shape::array_source source{nullptr, o.if_contains("items"), at.path};
        if (const auto* p = o.if_contains("prefixItems")) {
            if (!p->is_array()) return malformed("'prefixItems' is no list", at.path);
            source.prefix = &p->get_array();
        }
        s.implied |= json_types::array;
        s.arrays.push_back(source);
    }
    for (const auto& item : o) {
        TROUPE_TRYV(keyword(std::string(item.key()), item.value(), at, s, path));
    }
    path.pop_back();
    return {};
}

result<void> schema_reader::keyword(const std::string& name, const json::value& v, const schema_place& at,
    schema_shape& s, std::vector<const json::value*>& path) const {
    const auto here = at.path + "/" + name;
    if (name == "$ref") {
        if (!v.is_string()) return malformed("'$ref' is no string", at.path);
        TROUPE_TRY(auto to, resolve(std::string(v.get_string()), at.path));
        return absorb(to, s, path);
    }
    if (name == "type") {
        TROUPE_TRY(const auto types, types_of(v, at.path));
        s.types &= types;
        s.typed = true;
        return {};
    }
    if (name == "const") return narrow(s.values, {v}), result<void>{};
    if (name == "enum") {
        if (!v.is_array() || v.get_array().empty()) return malformed("'enum' is no list of values", at.path);
        if (v.get_array().size() > most_listed) return unsupported("so long an 'enum'", at.path);
        narrow(s.values, {v.get_array().begin(), v.get_array().end()});
        return {};
    }
    if (name == "allOf" || name == "anyOf" || name == "oneOf") {
        if (!v.is_array() || v.get_array().empty()) return malformed("'" + name + "' is no list of schemas", at.path);
        if (v.get_array().size() > most_listed) return unsupported("so long a list of schemas", at.path);
        schema_shape::branches b{{}, name == "oneOf", here};
        for (const auto& e : v.get_array()) b.list.push_back({&e, fmt::format("{}/{}", here, b.list.size())});
        if (name != "allOf") {
            if (std::find(s.choices.begin(), s.choices.end(), &v) != s.choices.end())
                return malformed("a choice that refers to itself without an end", here);
            s.choices.push_back(&v);
            return s.open.push_back(std::move(b)), result<void>{};
        }
        for (const auto& e : b.list) {
            TROUPE_TRYV(absorb(e, s, path));
        }
        return {};
    }
    if (name == "pattern" || name == "format") {
        if (!v.is_string()) return malformed("'" + name + "' is no string", at.path);
        (name == "pattern" ? s.patterns : s.formats).push_back({&v, at.path});
        s.implied |= json_types::string;
        return {};
    }
    if (name == "$id" && at.schema == &document_) return {};
    TROUPE_TRY(const bool number, number_keyword(name, v, at, s));
    if (number) return {};
    TROUPE_TRY(const bool container, container_keyword(name, v, at, s));
    if (container || annotations.contains(name) || name.starts_with("x-")) return {};
    return unsupported("keyword '" + name + "'", at.path);
}

result<bool> schema_reader::number_keyword(
    const std::string& name, const json::value& v, const schema_place& at, schema_shape& s) const {
    const bool lower = name == "minimum" || name == "exclusiveMinimum";
    const bool upper = name == "maximum" || name == "exclusiveMaximum";
    if (!lower && !upper && name != "multipleOf") return false;
    const auto n = number_of(v);
    if (!n) return malformed("'" + name + "' is no number", at.path);
    s.implied |= json_types::number;
    if (name == "multipleOf") {
        if (*n <= 0) return malformed("'multipleOf' must be above 0", at.path);
        if (*n != std::floor(*n) || *n > 1e9L) return unsupported("'multipleOf' of " + json::serialize(v), at.path);
        s.multiples.push_back(static_cast<std::int64_t>(*n));
        return true;
    }
    const number_bound b{*n, name.starts_with("exclusive")};
    auto& old = lower ? s.minimum : s.maximum;
    const bool tighter =
        !old || (lower ? b.value > old->value : b.value < old->value) || (b.value == old->value && b.exclusive);
    if (tighter) old = b;
    return true;
}

result<bool> schema_reader::container_keyword(
    const std::string& name, const json::value& v, const schema_place& at, schema_shape& s) const {
    if (name == "properties" || name == "additionalProperties" || name == "prefixItems") return true;
    if (name == "items") {
        if (v.is_array()) return unsupported("a list as 'items' (prefixItems is the form of draft 2020-12)", at.path);
        return true;
    }
    if (name == "required") {
        s.implied |= json_types::object;
        if (!v.is_array()) return malformed("'required' is no list", at.path);
        if (v.get_array().size() > most_listed / 2) return unsupported("so long a 'required'", at.path);
        for (const auto& e : v.get_array()) {
            if (!e.is_string()) return malformed("'required' holds no name", at.path);
            const std::string key(e.get_string());
            if (std::find(s.required.begin(), s.required.end(), key) == s.required.end()) s.required.push_back(key);
        }
        return true;
    }
    if (name == "uniqueItems") {
        if (!v.is_bool()) return malformed("'uniqueItems' is not true or false", at.path);
        s.unique = s.unique || v.get_bool();
        return true;
    }
    struct counted {
        const char* name;
        std::int64_t schema_shape::*field;
        bool lower;
        unsigned type;
    };
    static constexpr counted fields[] = {{"minLength", &schema_shape::min_length, true, json_types::string},
        {"maxLength", &schema_shape::max_length, false, json_types::string},
        {"minItems", &schema_shape::min_items, true, json_types::array},
        {"maxItems", &schema_shape::max_items, false, json_types::array},
        {"minProperties", &schema_shape::min_properties, true, json_types::object},
        {"maxProperties", &schema_shape::max_properties, false, json_types::object}};
    for (const auto& f : fields) {
        if (name != f.name) continue;
        TROUPE_TRY(const auto n, count_of(v, name, at.path));
        auto& old = s.*f.field;
        old = f.lower ? std::max(old, n) : old < 0 ? n : std::min(old, n);
        s.implied |= f.type;
        return true;
    }
    return false;
}

result<std::vector<schema_shape>> schema_reader::shapes(const schema_list& all) const {
    schema_shape s;
    std::vector<const json::value*> path;
    for (const auto& place : all) {
        path.clear();
        TROUPE_TRYV(absorb(place, s, path));
    }
    std::vector<schema_shape> out;
    TROUPE_TRYV(decide(std::move(s), out));
    for (auto& shape : out)
        // Keywords of one type without `type` are meant for that type.
        if (!shape.typed && !shape.values && shape.implied != 0) shape.types &= shape.implied;
    return out;
}

/// One branch of each choice, in every combination.
result<void> schema_reader::decide(schema_shape s, std::vector<schema_shape>& out) const {
    if (s.open.empty()) {
        if (out.size() >= most_shapes) return unsupported("so many combinations of anyOf and oneOf", s.path);
        if (!s.never) out.push_back(std::move(s));
        return {};
    }
    const auto choice = std::move(s.open.back());
    s.open.pop_back();
    if (choice.exclusive && choice.list.size() > 1) {
        TROUPE_TRYV(check_exclusive(choice));
    }
    for (const auto& branch : choice.list) {
        auto with = s;
        std::vector<const json::value*> path;
        TROUPE_TRYV(absorb(branch, with, path));
        if (with.open.size() > 64) return unsupported("so deep a nest of anyOf and oneOf", s.path);
        TROUPE_TRYV(decide(std::move(with), out));
    }
    return {};
}

// -- oneOf ------------------------------------------------------------------------------------------------------------

result<void> schema_reader::check_exclusive(const schema_shape::branches& b) const {
    std::vector<std::vector<schema_shape>> ways;
    for (const auto& branch : b.list) {
        TROUPE_TRY(ways.emplace_back(), shapes({branch}));
    }
    for (std::size_t i = 0; i < ways.size(); ++i)
        for (std::size_t j = i + 1; j < ways.size(); ++j)
            for (const auto& x : ways[i])
                for (const auto& y : ways[j]) {
                    if (++steps_ > most_steps) return unsupported("so complex a 'oneOf'", b.path);
                    TROUPE_TRY(const bool different, apart(x, y));
                    if (!different)
                        return unsupported(fmt::format("'oneOf' whose branches {} and {} may both hold", i, j), b.path);
                }
    return {};
}

/// Surely no value satisfies both.
result<bool> schema_reader::apart(const schema_shape& a, const schema_shape& b) const {
    if (a.values || b.values) {
        const auto& [some, other] = a.values ? std::tie(a, b) : std::tie(b, a);
        for (const auto& v : *some.values) {
            // What holds() cannot decide may hold.
            const auto here = holds(v, some), there = holds(v, other);
            if ((!here || *here) && (!there || *there)) return false;
        }
        return true;
    }
    // What only the keywords imply does not exclude other types: a schema without `type` takes them all.
    const auto types = [](const schema_shape& s) { return s.typed ? s.types : json_types::all; };
    const unsigned common = types(a) & types(b);
    if (common == 0) return true;
    if ((common & ~json_types::number) == 0) {
        const auto below = [](const auto& hi, const auto& lo) {
            return hi && lo && (hi->value < lo->value || (hi->value == lo->value && (hi->exclusive || lo->exclusive)));
        };
        return below(a.maximum, b.minimum) || below(b.maximum, a.minimum);
    }
    if (common == json_types::string)
        return (a.max_length >= 0 && a.max_length < b.min_length) || (b.max_length >= 0 && b.max_length < a.min_length);
    if (common == json_types::object) return told_apart_by_property(a, b);
    return false;
}

result<bool> schema_reader::told_apart_by_property(const schema_shape& a, const schema_shape& b) const {
    const auto requires_name = [](const schema_shape& s, const std::string& n) {
        return std::find(s.required.begin(), s.required.end(), n) != s.required.end();
    };
    const auto forbids = [](const schema_shape& s, const std::string& n) {
        return std::any_of(s.objects.begin(), s.objects.end(), [&](const auto& o) {
            return (!o.properties || !o.properties->contains(n)) && o.additional && o.additional->is_bool() &&
                   !o.additional->get_bool();
        });
    };
    for (const auto& n : a.required) {
        if (forbids(b, n)) return true;
        if (!requires_name(b, n) || !lists(a, n) || !lists(b, n)) continue;
        bool known_a = false, known_b = false;
        TROUPE_TRY(const auto x, values_of(property(a, n), known_a));
        TROUPE_TRY(const auto y, values_of(property(b, n), known_b));
        if (!known_a || !known_b) continue;
        const bool shared = std::any_of(x.begin(), x.end(),
            [&](const auto& v) { return std::any_of(y.begin(), y.end(), [&](const auto& w) { return equal(v, w); }); });
        if (!shared) return true;
    }
    return std::any_of(b.required.begin(), b.required.end(), [&](const auto& n) { return forbids(a, n); });
}

/// All values a property may have, if they are listed.
result<std::vector<json::value>> schema_reader::values_of(const schema_list& l, bool& known) const {
    schema_shape s;
    std::vector<const json::value*> path;
    for (const auto& place : l) {
        path.clear();
        TROUPE_TRYV(absorb(place, s, path));
    }
    known = s.values.has_value();
    return s.values.value_or(std::vector<json::value>{});
}

// -- parts ------------------------------------------------------------------------------------------------------------

bool schema_reader::lists(const schema_shape& s, const std::string& name) {
    return std::any_of(s.objects.begin(), s.objects.end(),
        [&](const auto& o) { return o.properties && o.properties->contains(name); });
}

schema_list schema_reader::property(const schema_shape& s, const std::string& name) {
    schema_list out;
    for (const auto& o : s.objects) {
        const auto* listed = o.properties ? o.properties->if_contains(name) : nullptr;
        if (listed)
            out.push_back({listed, o.path + "/properties/" + name});
        else if (o.additional)
            out.push_back({o.additional, o.path + "/additionalProperties"});
    }
    return out;
}

std::optional<schema_list> schema_reader::additional(const schema_shape& s) {
    schema_list out;
    bool listed = false;
    for (const auto& o : s.objects) {
        if (o.additional) out.push_back({o.additional, o.path + "/additionalProperties"});
        listed = listed || (o.properties && !o.properties->empty()) || (o.properties && !o.additional);
    }
    if (out.empty() && (listed || !s.required.empty())) return std::nullopt;
    for (const auto& p : out)
        if (p.schema->is_bool() && !p.schema->get_bool()) return std::nullopt;
    return out;
}

schema_list schema_reader::element(const schema_shape& s, std::size_t i) {
    schema_list out;
    for (const auto& a : s.arrays) {
        if (a.prefix && i < a.prefix->size())
            out.push_back({&(*a.prefix)[i], fmt::format("{}/prefixItems/{}", a.path, i)});
        else if (a.items)
            out.push_back({a.items, a.path + "/items"});
    }
    return out;
}

result<bool> schema_reader::holds(const json::value& v, const schema_shape& s) const {
    const auto type = type_of(v);
    if (s.never || (s.types & type) == 0) return false;
    if (s.values && std::none_of(s.values->begin(), s.values->end(), [&](const auto& x) { return equal(v, x); }))
        return false;
    if (type & json_types::number) {
        const auto n = *number_of(v);
        if (s.minimum && (n < s.minimum->value || (n == s.minimum->value && s.minimum->exclusive))) return false;
        if (s.maximum && (n > s.maximum->value || (n == s.maximum->value && s.maximum->exclusive))) return false;
        return std::all_of(s.multiples.begin(), s.multiples.end(),
            [&](auto m) { return std::fmod(n, static_cast<long double>(m)) == 0; });
    }
    if (type == json_types::string) {
        if (!s.patterns.empty()) return unsupported("'pattern' beside 'enum' or 'const'", s.path);
        const auto n = static_cast<std::int64_t>(code_points(std::string_view(v.get_string())));
        return n >= s.min_length && (s.max_length < 0 || n <= s.max_length);
    }
    const bool object = type == json_types::object &&
                        (!s.objects.empty() || !s.required.empty() || s.min_properties > 0 || s.max_properties >= 0);
    const bool array =
        type == json_types::array && (!s.arrays.empty() || s.min_items > 0 || s.max_items >= 0 || s.unique);
    if (object || array) return unsupported("'enum' or 'const' beside keywords for parts of its values", s.path);
    return true;
}

}  // namespace troupe::model
