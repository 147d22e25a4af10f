// Formatting: numbers through snprintf with checked width and precision, the rest by hand.
#include "model/templates/format.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "model/templates/builder.hpp"
#include "model/templates/print.hpp"

namespace troupe::model::jinja {

namespace {

constexpr int max_precision = 200;

struct spec {
    char fill = ' ', align = 0, type = 's';
    bool plus = false, space = false, alternate = false, zero = false;
    std::size_t width = 0;
    int precision = -1;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t read_number(std::string_view s, std::size_t& i) {
    std::size_t n = 0;
    for (; i < s.size() && is_digit(s[i]); ++i) {
        n = n * 10 + static_cast<std::size_t>(s[i] - '0');
        if (n > 1'000'000'000) throw failure{"width or precision too large in a format"};
    }
    return n;
}

void read_precision(std::string_view s, std::size_t& i, spec& f) {
    if (i >= s.size() || s[i] != '.') return;
    ++i;
    const std::size_t n = read_number(s, i);
    f.precision = static_cast<int>(std::min<std::size_t>(n, 1'000'000'000));
}

std::string print_number(const value& v, const spec& f) {
    if (f.type == 'd' || f.type == 'i' || f.type == 'u') {
        std::string digits;
        if (const auto i = whole(v)) {
            digits = print_integer(*i);
        } else if (const auto d = number(v); d && std::abs(*d) < 1e30) {
            digits = print_integer(static_cast<integer>(*d));
        } else {
            throw failure{"%d format: a real number is required, not " + std::string(type_name(v))};
        }
        if (digits[0] != '-' && f.plus) return "+" + digits;
        if (digits[0] != '-' && f.space) return " " + digits;
        return digits;
    }
    if (f.precision > max_precision) throw failure{"precision too large in a format"};
    std::string pattern = "%";
    if (f.plus) pattern += '+';
    if (f.space) pattern += ' ';
    if (f.alternate) pattern += '#';
    char buffer[640];
    if (f.type == 'x' || f.type == 'X' || f.type == 'o') {
        const auto i = whole(v);
        if (!i || *i < 0 || *i > static_cast<integer>(INT64_MAX)) {
            throw failure{"an integer is required by this format"};
        }
        std::snprintf(buffer, sizeof buffer, (pattern + "ll" + f.type).c_str(), static_cast<long long>(*i));
        return buffer;
    }
    const auto d = number(v);
    if (!d) throw failure{"must be real number, not " + std::string(type_name(v))};
    if (f.precision >= 0) pattern += "." + std::to_string(f.precision);
    std::snprintf(buffer, sizeof buffer, (pattern + f.type).c_str(), *d);
    return buffer;
}

void append_aligned(const spec& f, const text& t, builder& out) {
    const std::size_t n = count_chars(t.view());
    const std::size_t fill = f.width > n ? f.width - n : 0;
    const std::size_t left = f.align == '<' ? 0 : f.align == '^' ? fill / 2 : fill;
    if (f.align == '=' && fill > 0) {  // zeros go between sign and digits
        const bool sign = !t.empty() && (t.view()[0] == '-' || t.view()[0] == '+');
        out.append(t, 0, sign ? 1 : 0);
        out.pad(fill, f.fill);
        return out.append(t, sign ? 1 : 0, t.size());
    }
    out.pad(left, f.fill);
    out.append(t);
    out.pad(fill - left, f.fill);
}

void append_formatted(const value& v, spec f, builder& out) {
    text t;
    if (f.type == 's' || f.type == 'r' || f.type == 'a') {
        builder piece(out.cost());
        f.type == 's' ? print(v, piece) : print_repr(v, piece);
        t = piece.take();
        if (f.precision >= 0 && count_chars(t.view()) > static_cast<std::size_t>(f.precision)) {
            text cut;
            cut.append(t, 0, char_offsets(t.view())[static_cast<std::size_t>(f.precision)]);
            t = std::move(cut);
        }
    } else if (f.type == 'c') {
        std::string c;
        const auto code = whole(v);
        if (code && *code >= 0 && *code < 0x110000) append_utf8(c, static_cast<char32_t>(*code));
        t = v.as_text() != nullptr ? *v.as_text() : text(c, false);
    } else {
        t.append(print_number(v, f), false);
    }
    append_aligned(f, t, out);
}

}  // namespace

value format_percent(const text& pattern, const value& values, meter& m) {
    const std::string_view s = pattern.view();
    const sequence* several = values.as_sequence();
    if (several != nullptr && several->kind != form::tuple) several = nullptr;
    std::size_t used = 0;
    const auto next = [&]() -> value {
        if (several == nullptr) {
            if (used++ > 0) throw failure{"not enough arguments for format string"};
            return values;
        }
        if (used >= several->items.size()) throw failure{"not enough arguments for format string"};
        return several->items[used++];
    };
    builder out(m);
    std::size_t plain = 0;
    for (std::size_t i = s.find('%'); i != std::string_view::npos; i = s.find('%', plain)) {
        m.step();
        out.append(pattern, plain, i++);
        spec f;
        value v;
        bool named = false;
        if (i < s.size() && s[i] == '(') {
            const std::size_t end = s.find(')', i);
            const dict* d = values.as_dict();
            if (end == std::string_view::npos || d == nullptr) throw failure{"format requires a mapping"};
            const value* item = d->find(s.substr(i + 1, end - i - 1));
            if (item == nullptr) throw failure{"a key of the format is missing"};
            v = *item;
            named = true;
            i = end + 1;
        }
        f.align = '>';
        for (; i < s.size() && std::string_view("-+ #0").find(s[i]) != std::string_view::npos; ++i) {
            if (s[i] == '-') f.align = '<';
            if (s[i] == '+') f.plus = true;
            if (s[i] == ' ') f.space = true;
            if (s[i] == '#') f.alternate = true;
            if (s[i] == '0') f.zero = true;
        }
        f.width = read_number(s, i);
        read_precision(s, i, f);
        if (i >= s.size()) throw failure{"incomplete format"};
        f.type = s[i];
        plain = i + 1;
        if (f.type == '%') {
            out.append("%", false);
            continue;
        }
        if (std::string_view("sradiufFeEgGxXoc").find(f.type) == std::string_view::npos) {
            throw failure{"unsupported format character"};
        }
        if (f.zero && f.align == '>' && std::string_view("srac").find(f.type) == std::string_view::npos) {
            f.fill = '0';
            f.align = '=';
        }
        append_formatted(named ? v : next(), f, out);
    }
    if (several != nullptr && used < several->items.size()) {
        throw failure{"not all arguments converted during string formatting"};
    }
    out.append(pattern, plain, s.size());
    return out.finish();
}

namespace {

spec read_brace_spec(std::string_view s, const value& v) {
    spec f;
    std::size_t i = 0;
    const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
    if (s.size() > 1 && is_align(s[1])) {
        f.fill = s[0];
        f.align = s[1];
        i = 2;
    } else if (!s.empty() && is_align(s[0])) {
        f.align = s[0];
        i = 1;
    }
    if (i < s.size() && (s[i] == '+' || s[i] == '-' || s[i] == ' ')) f.plus = s[i++] == '+';
    if (i < s.size() && s[i] == '0') {
        f.fill = '0';
        if (f.align == 0) f.align = '=';
        ++i;
    }
    f.width = read_number(s, i);
    read_precision(s, i, f);
    const bool numeric = number(v) && v.as_bool() == nullptr;
    if (i < s.size())
        f.type = s[i++];
    else if (numeric && f.precision >= 0)
        f.type = 'g';
    if (i < s.size() || std::string_view("sdfFeEgGxXoc").find(f.type) == std::string_view::npos) {
        throw failure{"invalid format specifier"};
    }
    if (f.align == 0) f.align = numeric ? '>' : '<';
    return f;
}

}  // namespace

value format_braces(const text& pattern, const arguments& args, meter& m) {
    const std::string_view s = pattern.view();
    builder out(m);
    std::size_t automatic = 0, plain = 0;
    for (std::size_t i = 0; i < s.size();) {
        if (s[i] != '{' && s[i] != '}') {
            ++i;
            continue;
        }
        out.append(pattern, plain, i);
        if (i + 1 < s.size() && s[i + 1] == s[i]) {
            out.append(pattern, i, i + 1);
            plain = i += 2;
            continue;
        }
        const std::size_t end = s.find('}', i);
        if (s[i] == '}' || end == std::string_view::npos) throw failure{"single brace in a format string"};
        std::string_view field = s.substr(i + 1, end - i - 1), format;
        if (const std::size_t colon = field.find(':'); colon != std::string_view::npos) {
            format = field.substr(colon + 1);
            field = field.substr(0, colon);
        }
        const value* v = nullptr;
        std::size_t digits = 0;
        if (field.empty() || is_digit(field[0])) {
            const std::size_t index = field.empty() ? automatic++ : read_number(field, digits);
            if (digits == field.size() && index < args.positional.size()) v = &args.positional[index];
        } else {
            for (const auto& [name, item] : args.named) v = name == field ? &item : v;
        }
        if (v == nullptr) throw failure{"a field of the format string has no argument"};
        append_formatted(*v, read_brace_spec(format, *v), out);
        plain = i = end + 1;
    }
    out.append(pattern, plain, s.size());
    return out.finish();
}

std::string format_time(std::string_view pattern, std::int64_t now) {
    if (pattern.size() > 256) throw failure{"strftime format too long"};
    // Widths such as %2000000000d are glibc's own and would fill any buffer: only plain letters pass.
    const std::time_t seconds = now;
    std::tm parts{};
    if (gmtime_r(&seconds, &parts) == nullptr) throw failure{"the time is out of range"};
    std::string out;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        if (pattern[i] != '%' || i + 1 >= pattern.size()) {
            out += pattern[i];
            continue;
        }
        std::string one = "%";
        if (pattern[i + 1] == '-' && i + 2 < pattern.size()) one += pattern[++i];
        one += pattern[++i];
        if (std::string_view("aAwdbBmyYHIMSpzZjUWcxXGuVeFTDRCnthkPsr%").find(pattern[i]) == std::string_view::npos) {
            out += one;
            continue;
        }
        char buffer[64];
        out.append(buffer, std::strftime(buffer, sizeof buffer, one.c_str(), &parts));
    }
    return out;
}

}  // namespace troupe::model::jinja
