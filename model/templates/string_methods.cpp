// The methods of strings.
#include <algorithm>
#include <cctype>
#include <unordered_map>

#include <utf8proc.h>

#include "model/templates/builtins.hpp"
#include "model/templates/format.hpp"
#include "model/templates/interpreter.hpp"
#include "model/templates/print.hpp"
#include "model/templates/strings.hpp"

namespace troupe::model::jinja {

namespace {

using I = interpreter;
using V = value;
using A = arguments;
constexpr auto npos = std::string_view::npos;

const text* text_argument(const value* v, std::string_view method) {
    if (v == nullptr || v->is_none()) return nullptr;
    if (v->is_undefined()) fail_undefined(*v);
    if (v->as_text() == nullptr) {
        throw failure{std::string(method) + "() needs a string, not " + std::string(type_name(*v))};
    }
    return v->as_text();
}

const text& needed(const value* v, std::string_view method) {
    const text* t = text_argument(v, method);
    if (t == nullptr) throw failure{std::string(method) + "() needs a string"};
    return *t;
}

integer count_argument(const value* v, integer absent) {
    if (v == nullptr) return absent;
    const auto i = whole(*v);
    if (!i) throw failure{"'" + std::string(type_name(*v)) + "' object cannot be interpreted as an integer"};
    return *i;
}

template <side Where> value strip_method(I& i, const V& self, const A& args) {
    const auto a = bind(args, "strip", {"chars"});
    return strip(*self.as_text(), Where, text_argument(a[0], "strip"), i.cost());
}

value split_space(const text& t, integer limit, bool from_right, meter& m) {
    const std::string_view s = t.view();
    std::vector<std::pair<std::size_t, std::size_t>> words;
    for (std::size_t at = skip_space(s); at < s.size();) {
        std::size_t end = at;
        while (end < s.size() && !is_space(code_point(s, end))) end += char_size(s, end);
        words.emplace_back(at, end);
        at = skip_space(s, end);
    }
    const auto n = static_cast<integer>(words.size());
    if (limit >= 0 && n > limit + 1) {
        if (from_right) {
            const auto merged = static_cast<std::size_t>(n - limit);
            words[merged - 1].first = 0;  // the rest as it is, leading white space included
            words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(merged - 1));
        } else {
            words.resize(static_cast<std::size_t>(limit) + 1);
            words.back().second = s.size();  // the rest as it is, trailing white space included
        }
    }
    std::vector<value> out;
    for (const auto& [from, to] : words) out.push_back(slice_of(t, from, to, m));
    return make_sequence(std::move(out), m);
}

std::vector<std::size_t> hits_of(std::string_view s, std::string_view needle, meter& m) {
    std::vector<std::size_t> hits;
    m.scan(s.size());
    for (std::size_t at = find(s, needle); at != npos; at = find(s, needle, at + needle.size())) {
        m.step();
        hits.push_back(at);
    }
    return hits;
}

value split_method(I& i, const V& self, const A& args, bool from_right) {
    const auto a = bind(args, "split", {"sep", "maxsplit"});
    const text& t = *self.as_text();
    const integer limit = count_argument(a[1], -1);
    const text* separator = text_argument(a[0], "split");
    if (separator == nullptr) return split_space(t, limit, from_right, i.cost());
    if (separator->empty()) throw failure{"empty separator"};
    auto hits = hits_of(t.view(), separator->view(), i.cost());
    if (limit >= 0 && static_cast<integer>(hits.size()) > limit) {
        const auto extra = hits.size() - static_cast<std::size_t>(limit);
        if (from_right)
            hits.erase(hits.begin(), hits.begin() + static_cast<std::ptrdiff_t>(extra));
        else
            hits.resize(static_cast<std::size_t>(limit));
    }
    std::vector<value> out;
    std::size_t from = 0;
    for (const std::size_t hit : hits) {
        out.push_back(slice_of(t, from, hit, i.cost()));
        from = hit + separator->size();
    }
    out.push_back(slice_of(t, from, t.size(), i.cost()));
    return make_sequence(std::move(out), i.cost());
}

value partition_method(I& i, const V& self, const A& args, bool from_right) {
    const auto a = bind(args, "partition", {"sep"});
    const text& t = *self.as_text();
    const text& separator = needed(a[0], "partition");
    if (separator.empty()) throw failure{"empty separator"};
    const auto hits = hits_of(t.view(), separator.view(), i.cost());
    const value none = value::of(std::string_view());
    if (hits.empty()) {
        return from_right ? make_sequence({none, none, self}, i.cost(), form::tuple)
                          : make_sequence({self, none, none}, i.cost(), form::tuple);
    }
    const std::size_t at = from_right ? hits.back() : hits.front(), end = at + separator.size();
    return make_sequence(
        {slice_of(t, 0, at, i.cost()), slice_of(t, at, end, i.cost()), slice_of(t, end, t.size(), i.cost())}, i.cost(),
        form::tuple);
}

value split_lines(I& i, const V& self, const A& args) {
    const auto a = bind(args, "splitlines", {"keepends"});
    const bool keep = a[0] != nullptr && truthy(*a[0]);
    const text& t = *self.as_text();
    const auto parts = lines(t.view());
    std::vector<value> out;
    for (std::size_t k = 0; k < parts.size(); ++k) {
        const std::size_t next = k + 1 < parts.size() ? parts[k + 1].first : t.size();
        out.push_back(slice_of(t, parts[k].first, keep ? next : parts[k].second, i.cost()));
    }
    return make_sequence(std::move(out), i.cost());
}

template <bool Prefix> value affix(I& i, const V& self, const A& args) {
    const auto a = bind(args, Prefix ? "startswith" : "endswith", {"affix"});
    const std::string_view s = self.as_text()->view();
    const auto matches = [&](const value& v) {
        const std::string_view part = needed(&v, Prefix ? "startswith" : "endswith").view();
        return Prefix ? s.starts_with(part) : s.ends_with(part);
    };
    if (a[0] != nullptr && a[0]->as_sequence() != nullptr && a[0]->as_sequence()->kind == form::tuple) {
        const auto& options = a[0]->as_sequence()->items;
        return value::of(std::any_of(options.begin(), options.end(), matches));
    }
    i.cost().step();
    if (a[0] == nullptr) throw failure{"startswith() and endswith() need a string"};
    return value::of(matches(*a[0]));
}

template <bool Prefix> value remove_affix(I& i, const V& self, const A& args) {
    const auto a = bind(args, "removeprefix", {"affix"});
    const text& t = *self.as_text();
    const std::string_view part = needed(a[0], "removeprefix").view();
    if (Prefix) return t.view().starts_with(part) ? slice_of(t, part.size(), t.size(), i.cost()) : self;
    return t.view().ends_with(part) ? slice_of(t, 0, t.size() - part.size(), i.cost()) : self;
}

/// Index in characters; -1, or a failure if `must`.
value find_method_of(I& i, const V& self, const A& args, bool from_right, bool must) {
    const auto a = bind(args, "find", {"sub", "start"});
    const std::string_view s = self.as_text()->view();
    const std::string_view needle = needed(a[0], "find").view();
    i.cost().scan(s.size());
    std::size_t from = 0;
    if (a[1] != nullptr) {
        const auto offsets = char_offsets(s);
        const auto n = static_cast<integer>(offsets.size() - 1);
        integer start = count_argument(a[1], 0);
        if (start < 0) start = std::max<integer>(0, start + n);
        from = start > n ? npos : offsets[static_cast<std::size_t>(start)];
    }
    std::size_t hit = npos;
    if (from != npos && !from_right) hit = find(s, needle, from);
    if (from != npos && from_right) {
        const auto hits =
            needle.empty() ? std::vector<std::size_t>{s.size()} : hits_of(s.substr(from), needle, i.cost());
        if (!hits.empty()) hit = needle.empty() ? s.size() : from + hits.back();
    }
    if (hit == npos && must) throw failure{"substring not found"};
    return value::of(hit == npos ? integer{-1} : static_cast<integer>(count_chars(s.substr(0, hit))));
}

value count_method(I& i, const V& self, const A& args) {
    const auto a = bind(args, "count", {"sub"});
    const std::string_view s = self.as_text()->view(), needle = needed(a[0], "count").view();
    if (needle.empty()) return value::of(static_cast<integer>(count_chars(s)) + 1);
    return value::of(static_cast<integer>(hits_of(s, needle, i.cost()).size()));
}

value join_method(I& i, const V& self, const A& args) {
    const auto a = bind(args, "join", {"iterable"});
    if (a[0] == nullptr) throw failure{"join() needs an iterable"};
    builder out(i.cost());
    bool first = true;
    for (const value& item : iterate(*a[0], i.cost())) {
        if (!first) out.append(*self.as_text());
        first = false;
        out.append(needed(&item, "join"));
    }
    return out.finish();
}

value replace_method(I& i, const V& self, const A& args) {
    const auto a = bind(args, "replace", {"old", "new", "count"});
    return replace(
        *self.as_text(), needed(a[0], "replace"), needed(a[1], "replace"), count_argument(a[2], -1), i.cost());
}

/// Pads to `width` characters on one side.
value justify(I& i, const V& self, const A& args, bool left, bool zeros) {
    const auto a = bind(args, "justify", {"width", "fillchar"});
    const text& t = *self.as_text();
    const text* fill = zeros ? nullptr : text_argument(a[1], "justify");
    const char c = zeros ? '0' : fill != nullptr && fill->size() == 1 ? fill->view()[0] : ' ';
    const auto n = static_cast<integer>(count_chars(t.view()));
    const integer width = count_argument(a[0], 0);
    if (width > (integer{1} << 40)) throw failure{"the template makes more text than it may"};
    const auto pad = static_cast<std::size_t>(std::max<integer>(0, width - n));
    builder out(i.cost());
    const bool sign = zeros && !t.empty() && (t.view()[0] == '-' || t.view()[0] == '+');
    out.append(t, 0, sign ? 1 : 0);
    if (!left) out.pad(pad, c);
    out.append(t, sign ? 1 : 0, t.size());
    if (left) out.pad(pad, c);
    return out.finish();
}

enum class char_class { digit, alpha, alnum, space };

bool in_class(char32_t c, char_class which) {
    const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
    const bool digit = category == UTF8PROC_CATEGORY_ND;
    const bool letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
    switch (which) {
    case char_class::digit:
        return digit;
    case char_class::alpha:
        return letter;
    case char_class::alnum:
        return letter || digit;
    case char_class::space:
        return is_space(c);
    }
    return false;
}

template <char_class Class> value all_of_class(I& i, const V& self, const A&) {
    const std::string_view s = self.as_text()->view();
    i.cost().scan(s.size());
    for (std::size_t k = 0; k < s.size(); k += char_size(s, k)) {
        if (!in_class(code_point(s, k), Class)) return value::of(false);
    }
    return value::of(!s.empty());
}

value case_test(I& i, const V& self, std::string_view test) { return value::of(find_test(test)(i, self, {})); }

using table = std::unordered_map<std::string_view, native>;

const table& methods() {
    static const table all = {
        {"strip", strip_method<side::both>},
        {"lstrip", strip_method<side::left>},
        {"rstrip", strip_method<side::right>},
        {"split", [](I& i, const V& s, const A& a) { return split_method(i, s, a, false); }},
        {"rsplit", [](I& i, const V& s, const A& a) { return split_method(i, s, a, true); }},
        {"partition", [](I& i, const V& s, const A& a) { return partition_method(i, s, a, false); }},
        {"rpartition", [](I& i, const V& s, const A& a) { return partition_method(i, s, a, true); }},
        {"splitlines", split_lines},
        {"startswith", affix<true>},
        {"endswith", affix<false>},
        {"removeprefix", remove_affix<true>},
        {"removesuffix", remove_affix<false>},
        {"find", [](I& i, const V& s, const A& a) { return find_method_of(i, s, a, false, false); }},
        {"rfind", [](I& i, const V& s, const A& a) { return find_method_of(i, s, a, true, false); }},
        {"index", [](I& i, const V& s, const A& a) { return find_method_of(i, s, a, false, true); }},
        {"rindex", [](I& i, const V& s, const A& a) { return find_method_of(i, s, a, true, true); }},
        {"count", count_method},
        {"join", join_method},
        {"replace", replace_method},
        {"format", [](I& i, const V& s, const A& a) { return format_braces(*s.as_text(), a, i.cost()); }},
        {"upper", [](I& i, const V& s, const A&) { return upper(*s.as_text(), i.cost()); }},
        {"lower", [](I& i, const V& s, const A&) { return lower(*s.as_text(), i.cost()); }},
        {"casefold", [](I& i, const V& s, const A&) { return lower(*s.as_text(), i.cost()); }},
        {"capitalize", [](I& i, const V& s, const A&) { return capitalize(*s.as_text(), i.cost()); }},
        {"title", [](I& i, const V& s, const A&) { return title(*s.as_text(), false, i.cost()); }},
        {"center",
            [](I& i, const V& s, const A& a) {
                return center(*s.as_text(), count_argument(bind(a, "center", {"width"})[0], 0), i.cost());
            }},
        {"ljust", [](I& i, const V& s, const A& a) { return justify(i, s, a, true, false); }},
        {"rjust", [](I& i, const V& s, const A& a) { return justify(i, s, a, false, false); }},
        {"zfill", [](I& i, const V& s, const A& a) { return justify(i, s, a, false, true); }},
        {"isdigit", all_of_class<char_class::digit>},
        {"isdecimal", all_of_class<char_class::digit>},
        {"isnumeric", all_of_class<char_class::digit>},
        {"isalpha", all_of_class<char_class::alpha>},
        {"isalnum", all_of_class<char_class::alnum>},
        {"isspace", all_of_class<char_class::space>},
        {"isupper", [](I& i, const V& s, const A&) { return case_test(i, s, "upper"); }},
        {"islower", [](I& i, const V& s, const A&) { return case_test(i, s, "lower"); }},
    };
    return all;
}

}  // namespace

native find_string_method(std::string_view name) {
    const auto it = methods().find(name);
    return it == methods().end() ? nullptr : it->second;
}

}  // namespace troupe::model::jinja
