// Filters that give a string or a number.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>

#include "model/templates/builtins.hpp"
#include "model/templates/format.hpp"
#include "model/templates/interpreter.hpp"
#include "model/templates/operators.hpp"
#include "model/templates/print.hpp"
#include "model/templates/strings.hpp"

namespace troupe::model::jinja {

namespace {

using I = interpreter;
using V = value;
using A = arguments;

/// str(v), held by the caller's value.
const text& as_string(const value& v, value& holder, meter& m) {
    holder = to_string(v, m);
    return *holder.as_text();
}

bool flag(const value* v, bool absent) { return v == nullptr ? absent : truthy(*v); }

integer integer_or(const value* v, integer absent) {
    if (v == nullptr || v->is_none()) return absent;
    const auto i = whole(*v);
    if (!i) throw failure{"'" + std::string(type_name(*v)) + "' object cannot be interpreted as an integer"};
    return *i;
}

value trim(I& i, const V& self, const A& args) {
    const auto a = bind(args, "trim", {"chars"});
    value holder, chars;
    const text* set = a[0] == nullptr || a[0]->is_none() ? nullptr : &as_string(*a[0], chars, i.cost());
    return strip(as_string(self, holder, i.cost()), side::both, set, i.cost());
}

value replace_filter(I& i, const V& self, const A& args) {
    const auto a = bind(args, "replace", {"old", "new", "count"});
    if (a[0] == nullptr || a[1] == nullptr) throw failure{"replace needs two arguments"};
    value holder, from, to;
    return replace(as_string(self, holder, i.cost()), as_string(*a[0], from, i.cost()), as_string(*a[1], to, i.cost()),
        integer_or(a[2], -1), i.cost());
}

value tojson(I& i, const V& self, const A& args) {
    const auto a = bind(args, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
    // jinja's own tojson(indent) has the width first; a number there can only be meant so
    const value* indent = a[1];
    json_style style;
    style.ascii = flag(a[0], false);
    if (indent == nullptr && a[0] != nullptr && a[0]->as_integer() != nullptr && args.named.empty()) {
        indent = a[0];
        style.ascii = false;
    }
    style.sort_keys = flag(a[3], false);
    if (indent != nullptr && !indent->is_none()) {
        if (const text* t = indent->as_text()) {
            style.indent = std::string(t->view());
        } else {
            style.indent =
                std::string(static_cast<std::size_t>(std::clamp<integer>(integer_or(indent, 0), 0, 1000)), ' ');
        }
        style.item_separator = ",";
    }
    if (a[2] != nullptr && !a[2]->is_none()) {
        const auto pair = iterate(*a[2], i.cost());
        if (pair.size() != 2 || pair[0].as_text() == nullptr || pair[1].as_text() == nullptr) {
            throw failure{"tojson: separators must be two strings"};
        }
        style.item_separator = pair[0].as_text()->view();
        style.key_separator = pair[1].as_text()->view();
    }
    builder out(i.cost());
    print_json(self, style, out);
    return out.finish();
}

value indent(I& i, const V& self, const A& args) {
    const auto a = bind(args, "indent", {"width", "first", "blank"});
    value holder, by;
    const text& t = as_string(self, holder, i.cost());
    const text* unit = a[0] == nullptr ? nullptr : a[0]->as_text();
    if (unit == nullptr) {
        const integer width = integer_or(a[0], 4);
        if (width > (1 << 20)) throw failure{"the template makes more text than it may"};
        by = value::of(std::string_view(std::string(static_cast<std::size_t>(std::max<integer>(width, 0)), ' ')));
        unit = by.as_text();
    }
    auto parts = lines(t.view());
    // As the original does: a text that ends in a line end keeps it, as one more empty line.
    if (parts.empty() || parts.back().second != t.size()) parts.emplace_back(t.size(), t.size());
    const bool blank = flag(a[2], false);
    builder out(i.cost());
    if (flag(a[1], false)) out.append(*unit);
    for (std::size_t k = 0; k < parts.size(); ++k) {
        const auto [from, to] = parts[k];
        if (k > 0) out.append("\n", t.from_user_at(from > 0 ? from - 1 : 0));
        if (k > 0 && (blank || from != to)) out.append(*unit);
        out.append(t, from, to);
    }
    return out.finish();
}

value escape(I& i, const V& self, const A&) {
    value holder;
    const text& t = as_string(self, holder, i.cost());
    builder out(i.cost());
    for (std::size_t k = 0; k < t.size(); ++k) {
        const char c = t.view()[k];
        const std::string_view entity = c == '&'    ? "&amp;"
                                        : c == '<'  ? "&lt;"
                                        : c == '>'  ? "&gt;"
                                        : c == '"'  ? "&#34;"
                                        : c == '\'' ? "&#39;"
                                                    : std::string_view();
        out.append(entity.empty() ? t.view().substr(k, 1) : entity, t.from_user_at(k));
    }
    return out.finish();
}

value urlencode(I& i, const V& self, const A&) {
    value holder;
    const text& t = as_string(self, holder, i.cost());
    builder out(i.cost());
    for (std::size_t k = 0; k < t.size(); ++k) {
        const auto c = static_cast<unsigned char>(t.view()[k]);
        const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
                           c == '.' || c == '-' || c == '~' || c == '/';
        char buffer[4];
        std::snprintf(buffer, sizeof buffer, "%%%02X", c);
        out.append(plain ? t.view().substr(k, 1) : std::string_view(buffer), t.from_user_at(k));
    }
    return out.finish();
}

value truncate(I& i, const V& self, const A& args) {
    const auto a = bind(args, "truncate", {"length", "killwords", "end", "leeway"});
    value holder, tail_holder;
    const text& t = as_string(self, holder, i.cost());
    const text tail = a[2] == nullptr ? text("...", false) : as_string(*a[2], tail_holder, i.cost());
    const auto offsets = char_offsets(t.view());
    const auto n = static_cast<integer>(offsets.size() - 1), tail_size = static_cast<integer>(count_chars(tail.view()));
    const integer length = integer_or(a[0], 255), leeway = integer_or(a[3], 5);
    if (length < tail_size) throw failure{"truncate: length is shorter than the end"};
    if (n <= length || n <= length + leeway) return holder;
    std::size_t end = offsets[static_cast<std::size_t>(length - tail_size)];
    if (!flag(a[1], false)) {
        const std::size_t space = t.view().substr(0, end).rfind(' ');
        if (space != std::string_view::npos) end = space;
    }
    builder out(i.cost());
    out.append(t, 0, end);
    out.append(tail);
    return out.finish();
}

std::optional<integer> parse_integer(std::string_view s, int base) {
    s = s.substr(skip_space(s));
    s = s.substr(0, trim_end(s));
    const bool negative = !s.empty() && s[0] == '-';
    if (!s.empty() && (s[0] == '-' || s[0] == '+')) s.remove_prefix(1);
    if (base != 10 && s.size() > 2 && s[0] == '0') {
        const char p = static_cast<char>(s[1] | 0x20);
        if ((base == 16 && p == 'x') || (base == 8 && p == 'o') || (base == 2 && p == 'b')) s.remove_prefix(2);
    }
    if (s.empty()) return std::nullopt;
    integer n = 0;
    for (std::size_t i = 0; i < s.size(); ++i) {
        const char c = s[i];
        if (c == '_' && i > 0 && i + 1 < s.size() && s[i - 1] != '_') continue;
        const int d = c >= '0' && c <= '9'                     ? c - '0'
                      : (c | 0x20) >= 'a' && (c | 0x20) <= 'z' ? (c | 0x20) - 'a' + 10
                                                               : 99;
        if (d >= base) return std::nullopt;
        if (__builtin_mul_overflow(n, static_cast<integer>(base), &n) || __builtin_add_overflow(n, d, &n)) {
            throw failure{"integer too large"};
        }
    }
    return negative ? -n : n;
}

std::optional<double> parse_double(std::string_view s) {
    s = s.substr(skip_space(s));
    s = s.substr(0, trim_end(s));
    if (!s.empty() && s[0] == '+') s.remove_prefix(1);
    double d = 0;
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), d);
    if (error != std::errc{} || end != s.data() + s.size() || s.empty()) return std::nullopt;
    return d;
}

value to_int(I&, const V& self, const A& args) {
    const auto a = bind(args, "int", {"default", "base"});
    const integer base = integer_or(a[1], 10);
    if (base < 2 || base > 36) throw failure{"int() base must be >= 2 and <= 36"};
    std::optional<double> d;
    if (const text* t = self.as_text()) {
        if (const auto i = parse_integer(t->view(), static_cast<int>(base))) return value::of(*i);
        d = parse_double(t->view());
    } else if (const auto i = whole(self)) {
        return value::of(*i);
    } else {
        d = number(self);
    }
    if (d && std::abs(*d) < 1e36) return value::of(static_cast<integer>(*d));
    return a[0] != nullptr ? *a[0] : value::of(integer{0});
}

value to_float(I&, const V& self, const A& args) {
    const auto a = bind(args, "float", {"default"});
    const auto d = self.as_text() != nullptr ? parse_double(self.as_text()->view()) : number(self);
    if (d) return value::of(*d);
    return a[0] != nullptr ? *a[0] : value::of(0.0);
}

value absolute(I&, const V& self, const A&) {
    const auto d = number(self);
    if (!d) throw failure{"bad operand type for abs(): '" + std::string(type_name(self)) + "'"};
    return *d < 0 ? negate(self) : self.as_bool() != nullptr ? value::of(*whole(self)) : self;
}

value round_filter(I&, const V& self, const A& args) {
    const auto a = bind(args, "round", {"precision", "method"});
    const integer precision = integer_or(a[0], 0);
    const text* method = a[1] == nullptr ? nullptr : a[1]->as_text();
    const auto d = number(self);
    if (!d) throw failure{"type " + std::string(type_name(self)) + " can't be rounded"};
    if (precision > 300 || precision < -300) throw failure{"round: precision out of range"};
    if (method == nullptr || method->view() == "common") {
        if (self.as_integer() != nullptr && precision >= 0) return self;
        if (precision < 0) {
            const double scale = std::pow(10.0, static_cast<double>(-precision));
            return value::of(std::nearbyint(*d / scale) * scale);
        }
        char buffer[640];  // printf rounds the exact decimal value half to even, as Python does
        std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(precision), *d);
        return value::of(std::strtod(buffer, nullptr));
    }
    const double scale = std::pow(10.0, static_cast<double>(precision));
    if (method->view() == "ceil") return value::of(std::ceil(*d * scale) / scale);
    if (method->view() == "floor") return value::of(std::floor(*d * scale) / scale);
    throw failure{"method must be common, ceil or floor"};
}

value word_count(I& i, const V& self, const A&) {
    value holder;
    const text& t = as_string(self, holder, i.cost());
    integer words = 0;
    bool inside = false;
    for (std::size_t k = 0; k < t.size(); k += char_size(t.view(), k)) {
        const char32_t c = code_point(t.view(), k);
        const bool letter = c == '_' || (c < 0x80 ? std::isalnum(static_cast<int>(c)) != 0 : !is_space(c));
        words += letter && !inside ? 1 : 0;
        inside = letter;
    }
    return value::of(words);
}

value format_filter(I& i, const V& self, const A& args) {
    value holder;
    const text& t = as_string(self, holder, i.cost());
    if (args.named.empty()) return format_percent(t, make_sequence(args.positional, i.cost(), form::tuple), i.cost());
    dict d;
    for (const auto& [name, v] : args.named) d.set(value::of(std::string_view(name)), v, i.cost());
    return format_percent(t, make_dict(std::move(d)), i.cost());
}

value title_by_words(const text& t, meter& m) { return title(t, true, m); }

template <value (*F)(const text&, meter&)> value by_text(I& i, const V& self, const A& args) {
    bind(args, "filter", {});
    value holder;
    return F(as_string(self, holder, i.cost()), i.cost());
}

}  // namespace

native find_text_filter(std::string_view name) {
    static const std::unordered_map<std::string_view, native> all = {
        {"trim", trim},
        {"replace", replace_filter},
        {"tojson", tojson},
        {"indent", indent},
        {"e", escape},
        {"escape", escape},
        {"forceescape", escape},
        {"urlencode", urlencode},
        {"truncate", truncate},
        {"int", to_int},
        {"float", to_float},
        {"abs", absolute},
        {"round", round_filter},
        {"wordcount", word_count},
        {"format", format_filter},
        {"upper", by_text<upper>},
        {"lower", by_text<lower>},
        {"capitalize", by_text<capitalize>},
        {"title", by_text<title_by_words>},
        {"string", [](I& i, const V& self, const A&) { return to_string(self, i.cost()); }},
        {"safe", [](I& i, const V& self, const A&) { return to_string(self, i.cost()); }},
        {"center",
            [](I& i, const V& self, const A& args) {
                const auto a = bind(args, "center", {"width"});
                value holder;
                return center(as_string(self, holder, i.cost()), integer_or(a[0], 80), i.cost());
            }},
    };
    const auto it = all.find(name);
    return it == all.end() ? nullptr : it->second;
}

}  // namespace troupe::model::jinja
