// str, repr and JSON of template values, keeping the user's mark on what came from the user.
#include "model/templates/print.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include <utf8proc.h>

namespace troupe::model::jinja {

std::string print_integer(integer i) {
    if (i == 0) return "0";
    const bool negative = i < 0;
    unsigned __int128 n = negative ? -static_cast<unsigned __int128>(i) : static_cast<unsigned __int128>(i);
    std::string digits;
    for (; n != 0; n /= 10) digits += static_cast<char>('0' + static_cast<int>(n % 10));
    if (negative) digits += '-';
    std::reverse(digits.begin(), digits.end());
    return digits;
}

std::string print_double(double d) {
    if (std::isnan(d)) return "nan";
    if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
    char buffer[40];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, d, std::chars_format::scientific).ptr;
    std::string_view s(buffer, static_cast<std::size_t>(end - buffer));
    const bool negative = s[0] == '-';
    if (negative) s.remove_prefix(1);
    const std::size_t e = s.find('e');
    int exponent = 0;
    const std::size_t sign = s[e + 1] == '+' ? 2 : 1;
    std::from_chars(s.data() + e + sign, s.data() + s.size(), exponent);
    std::string digits(s.substr(0, e));
    std::erase(digits, '.');
    const int n = static_cast<int>(digits.size());
    std::string out = negative ? "-" : "";
    if (exponent < -4 || exponent >= 16) {
        out += digits.substr(0, 1);
        if (n > 1) out += "." + digits.substr(1);
        const int size = std::abs(exponent);
        out += exponent < 0 ? "e-" : "e+";
        return out + (size < 10 ? "0" : "") + std::to_string(size);
    }
    if (exponent < 0) return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
    if (n <= exponent + 1) return out + digits + std::string(static_cast<std::size_t>(exponent + 1 - n), '0') + ".0";
    return out + digits.substr(0, static_cast<std::size_t>(exponent + 1)) + "." +
           digits.substr(static_cast<std::size_t>(exponent + 1));
}

namespace {

bool printable(char32_t c) {
    if (c < 0x20 || c == 0x7F) return false;
    if (c < 0x7F) return true;
    const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
    switch (category) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
        return false;
    default:
        return true;
    }
}

std::string python_escape(char32_t c) {
    if (c == '\n') return "\\n";
    if (c == '\r') return "\\r";
    if (c == '\t') return "\\t";
    char buffer[16];
    std::snprintf(buffer, sizeof buffer,
        c < 0x100     ? "\\x%02x"
        : c < 0x10000 ? "\\u%04x"
                      : "\\U%08x",
        static_cast<unsigned>(c));
    return buffer;
}

/// Appends the text with what `escape(code point)` gives in place of a character, where that is not empty.
template <class F> void append_escaped(const text& t, builder& out, F escape) {
    const std::string_view s = t.view();
    std::size_t plain = 0;
    for (std::size_t i = 0; i < s.size();) {
        const std::size_t size = char_size(s, i);
        const std::string escaped = escape(code_point(s, i));
        if (!escaped.empty()) {
            out.append(t, plain, i);
            out.append(escaped, t.from_user_at(i));
            plain = i + size;
        }
        i += size;
    }
    out.append(t, plain, s.size());
}

void repr_text(const text& t, builder& out) {
    const std::string_view s = t.view();
    const bool double_quoted = s.find('\'') != s.npos && s.find('"') == s.npos;
    const char quote = double_quoted ? '"' : '\'';
    out.append(std::string_view(&quote, 1), false);
    append_escaped(t, out, [&](char32_t c) -> std::string {
        if (c == '\\' || c == static_cast<char32_t>(quote)) return std::string("\\") + static_cast<char>(c);
        return printable(c) ? "" : python_escape(c);
    });
    out.append(std::string_view(&quote, 1), false);
}

void repr_sequence(const sequence& s, builder& out) {
    static constexpr std::string_view open[] = {"[", "(", "[", "(", "", "dict_keys([", "dict_values([", "dict_items(["};
    static constexpr std::string_view end[] = {"]", ")", "]", ")", "", "])", "])", "])"};
    if (s.kind == form::generator) return out.append("<generator object>", false);
    out.append(open[static_cast<int>(s.kind)], false);
    for (std::size_t i = 0; i < s.items.size(); ++i) {
        if (i > 0) out.append(", ", false);
        print_repr(s.items[i], out);
    }
    if (s.items.size() == 1 && (s.kind == form::tuple || s.kind == form::group)) out.append(",", false);
    out.append(end[static_cast<int>(s.kind)], false);
}

void repr_dict(const dict& d, builder& out) {
    out.append("{", false);
    for (std::size_t i = 0; i < d.items.size(); ++i) {
        if (i > 0) out.append(", ", false);
        print_repr(d.items[i].first, out);
        out.append(": ", false);
        print_repr(d.items[i].second, out);
    }
    out.append("}", false);
}

}  // namespace

void print(const value& v, builder& out) {
    if (const text* t = v.as_text()) {
        out.append(*t);
    } else if (!v.is_undefined()) {
        print_repr(v, out);
    }
}

void print_repr(const value& v, builder& out) {
    out.cost().step();
    if (const text* t = v.as_text()) return repr_text(*t, out);
    if (v.is_undefined()) return out.append("Undefined", false);
    if (v.is_none()) return out.append("None", false);
    if (const bool* b = v.as_bool()) return out.append(*b ? "True" : "False", false);
    if (const integer* i = v.as_integer()) return out.append(print_integer(*i), false);
    if (const double* d = v.as_double()) return out.append(print_double(*d), false);
    if (const sequence* s = v.as_sequence()) return repr_sequence(*s, out);
    if (const dict* d = v.as_dict()) return repr_dict(*d, out);
    if (v.as_namespace() != nullptr) return out.append("<Namespace>", false);
    if (v.as_loop() != nullptr) return out.append("<LoopContext>", false);
    out.append("<function " + v.as_callable()->name + ">", false);
}

value to_string(const value& v, meter& m) {
    if (v.as_text() != nullptr) return v;
    builder out(m);
    print(v, out);
    return out.finish();
}

namespace {

std::string json_escape(char32_t c, bool ascii) {
    switch (c) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    case '\b':
        return "\\b";
    case '\f':
        return "\\f";
    default:
        break;
    }
    char buffer[16];
    if (c < 0x20 || (ascii && c >= 0x7F && c < 0x10000)) {
        if (c == 0x7F) return {};
        std::snprintf(buffer, sizeof buffer, "\\u%04x", static_cast<unsigned>(c));
        return buffer;
    }
    if (ascii && c >= 0x10000) {
        const unsigned rest = static_cast<unsigned>(c) - 0x10000;
        std::snprintf(buffer, sizeof buffer, "\\u%04x\\u%04x", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
        return buffer;
    }
    return {};
}

void json_text(const text& t, const json_style& style, builder& out) {
    out.append("\"", false);
    append_escaped(t, out, [&](char32_t c) { return json_escape(c, style.ascii); });
    out.append("\"", false);
}

void json_newline(const json_style& style, int level, builder& out) {
    if (!style.indent) return;
    out.append("\n", false);
    for (int i = 0; i < level; ++i) out.append(*style.indent, false);
}

void json_key(const value& key, const json_style& style, builder& out) {
    if (const text* t = key.as_text()) return json_text(*t, style, out);
    if (key.as_sequence() != nullptr) throw failure{"keys must be str, int, float, bool or None, not tuple"};
    out.append("\"", false);
    print_json(key, style, out);
    out.append("\"", false);
}

void json_dict(const dict& d, const json_style& style, builder& out, int level) {
    if (d.items.empty()) return out.append("{}", false);
    std::vector<const std::pair<value, value>*> order;
    for (const auto& item : d.items) order.push_back(&item);
    if (style.sort_keys) {
        std::stable_sort(order.begin(), order.end(),
            [&](const auto* a, const auto* b) { return compare(a->first, b->first, out.cost()) < 0; });
    }
    out.append("{", false);
    bool first = true;
    for (const auto* item : order) {
        if (!first) out.append(style.item_separator, false);
        first = false;
        json_newline(style, level + 1, out);
        json_key(item->first, style, out);
        out.append(style.key_separator, false);
        print_json(item->second, style, out, level + 1);
    }
    json_newline(style, level, out);
    out.append("}", false);
}

void json_list(const sequence& s, const json_style& style, builder& out, int level) {
    if (s.items.empty()) return out.append("[]", false);
    out.append("[", false);
    for (std::size_t i = 0; i < s.items.size(); ++i) {
        if (i > 0) out.append(style.item_separator, false);
        json_newline(style, level + 1, out);
        print_json(s.items[i], style, out, level + 1);
    }
    json_newline(style, level, out);
    out.append("]", false);
}

}  // namespace

void print_json(const value& v, const json_style& style, builder& out, int level) {
    out.cost().step();
    if (const text* t = v.as_text()) return json_text(*t, style, out);
    if (v.is_none()) return out.append("null", false);
    if (const bool* b = v.as_bool()) return out.append(*b ? "true" : "false", false);
    if (const integer* i = v.as_integer()) return out.append(print_integer(*i), false);
    if (const double* d = v.as_double()) {
        if (std::isnan(*d)) return out.append("NaN", false);
        if (std::isinf(*d)) return out.append(*d < 0 ? "-Infinity" : "Infinity", false);
        return out.append(print_double(*d), false);
    }
    const sequence* s = v.as_sequence();
    if (s != nullptr && s->kind < form::generator && s->kind != form::range) return json_list(*s, style, out, level);
    if (const dict* d = v.as_dict()) return json_dict(*d, style, out, level);
    throw failure{"Object of type " + std::string(type_name(v)) + " is not JSON serializable"};
}

}  // namespace troupe::model::jinja
