// Character-wise string operations; each output byte takes the mark of the input character it stands for.
#include "model/templates/strings.hpp"

#include <algorithm>
#include <utility>

#include <utf8proc.h>

#include "model/templates/builder.hpp"

namespace troupe::model::jinja {

namespace {

/// Upper case forms of more than one character, and the title-case form of the same (Unicode's SpecialCasing, the
/// unconditional part that Latin, Greek and Armenian text meets).
struct special_case {
    char32_t c;
    std::string_view upper, title;
};
constexpr special_case specials[] = {{0xDF, "SS", "Ss"}, {0x149, "\xCA\xBCN", "\xCA\xBCN"},
    {0x1F0, "J\xCC\x8C", "J\xCC\x8C"}, {0x587, "\xD4\xB5\xD5\x92", "\xD4\xB5\xD6\x82"}, {0xFB00, "FF", "Ff"},
    {0xFB01, "FI", "Fi"}, {0xFB02, "FL", "Fl"}, {0xFB03, "FFI", "Ffi"}, {0xFB04, "FFL", "Ffl"}, {0xFB05, "ST", "St"},
    {0xFB06, "ST", "St"}};

void append_case(std::string& out, char32_t c, bool to_upper, bool to_title) {
    for (const auto& s : specials) {
        if (s.c == c && (to_upper || to_title)) {
            out += to_title ? s.title : s.upper;
            return;
        }
    }
    const auto i = static_cast<utf8proc_int32_t>(c);
    if (to_title) return append_utf8(out, static_cast<char32_t>(utf8proc_totitle(i)));
    if (to_upper) return append_utf8(out, static_cast<char32_t>(utf8proc_toupper(i)));
    if (c == 0x130) {  // capital I with dot: small i and the dot
        out += "i\xCC\x87";
        return;
    }
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(i)));
}

bool is_cased(char32_t c) {
    const auto i = static_cast<utf8proc_int32_t>(c);
    const auto category = utf8proc_category(i);
    return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT;
}

/// f(character, index) -> append to the string given.
template <class F> value map_chars(const text& t, meter& m, F f) {
    builder out(m);
    const std::string_view s = t.view();
    m.step(static_cast<std::int64_t>(s.size() / 16));
    std::string piece;
    bool mark = t.empty() ? false : t.from_user_at(0);
    for (std::size_t i = 0; i < s.size();) {
        if (t.n_runs() > 1 && t.from_user_at(i) != mark) {
            out.append(piece, mark);
            piece.clear();
            mark = !mark;
        }
        const std::size_t size = char_size(s, i);
        const char32_t c = code_point(s, i);
        if (c == 0xFFFD) {
            piece += s.substr(i, size);  // also stray bytes stay what they are
        } else {
            f(piece, c);
        }
        i += size;
    }
    out.append(piece, mark);
    return out.finish();
}

}  // namespace

value strip(const text& t, side where, const text* chars, meter& m) {
    const std::string_view s = t.view();
    m.scan(s.size());
    std::size_t from = 0, to = s.size();
    if (chars == nullptr) {
        if (where != side::right) from = skip_space(s);
        if (where != side::left && from < to) to = trim_end(s);
        return slice_of(t, from, to, m);
    }
    const auto is_in = [&](std::size_t at, std::size_t size) {
        m.step(static_cast<std::int64_t>(chars->size() / 64));
        return find(chars->view(), s.substr(at, size)) != std::string_view::npos;
    };
    if (where != side::right) {
        while (from < to && is_in(from, char_size(s, from))) from += char_size(s, from);
    }
    while (where != side::left && to > from) {
        std::size_t start = to - 1;
        while (start > from && (static_cast<unsigned char>(s[start]) & 0xC0) == 0x80) --start;
        if (!is_in(start, to - start)) break;
        to = start;
    }
    return slice_of(t, from, to, m);
}

value replace(const text& t, const text& from, const text& to, integer count, meter& m) {
    const std::string_view s = t.view();
    builder out(m);
    m.scan(s.size());
    std::size_t at = 0;
    if (from.empty()) {
        while (count != 0 && at <= s.size()) {
            out.append(to);
            --count;
            const std::size_t size = at < s.size() ? char_size(s, at) : 0;
            out.append(t, at, at + size);
            at += size;
            if (size == 0) return out.finish();
        }
        out.append(t, at, s.size());
        return out.finish();
    }
    while (count != 0) {
        m.step();
        const std::size_t hit = find(s, from.view(), at);
        if (hit == std::string_view::npos) break;
        out.append(t, at, hit);
        out.append(to);
        at = hit + from.size();
        --count;
    }
    out.append(t, at, s.size());
    return out.finish();
}

std::vector<std::pair<std::size_t, std::size_t>> lines(std::string_view s) {
    std::vector<std::pair<std::size_t, std::size_t>> out;
    std::size_t from = 0;
    for (std::size_t i = 0; i < s.size();) {
        const char32_t c = code_point(s, i);
        const std::size_t size = c == '\r' && i + 1 < s.size() && s[i + 1] == '\n' ? 2 : char_size(s, i);
        if ((c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029) {
            out.emplace_back(from, i);
            from = i + size;
        }
        i += size;
    }
    if (from < s.size()) out.emplace_back(from, s.size());
    return out;
}

value upper(const text& t, meter& m) {
    return map_chars(t, m, [](std::string& out, char32_t c) { append_case(out, c, true, false); });
}

value lower(const text& t, meter& m) {
    return map_chars(t, m, [](std::string& out, char32_t c) { append_case(out, c, false, false); });
}

value capitalize(const text& t, meter& m) {
    bool first = true;
    return map_chars(
        t, m, [&](std::string& out, char32_t c) { append_case(out, c, false, std::exchange(first, false)); });
}

value title(const text& t, bool by_words, meter& m) {
    bool start = true;
    return map_chars(t, m, [&](std::string& out, char32_t c) {
        append_case(out, c, by_words && start, !by_words && start);
        start = by_words ? is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<' : !is_cased(c);
    });
}

value center(const text& t, integer width, meter& m) {
    const auto n = static_cast<integer>(count_chars(t.view()));
    builder out(m);
    if (width <= n) {
        out.append(t);
        return out.finish();
    }
    const integer fill = width - n;
    if (fill > (integer{1} << 40)) throw failure{"the template makes more text than it may"};
    const integer left = fill / 2 + (fill & width & 1);  // Python puts the odd one left if the width is odd
    out.pad(static_cast<std::size_t>(left));
    out.append(t);
    out.pad(static_cast<std::size_t>(fill - left));
    return out.finish();
}

}  // namespace troupe::model::jinja
