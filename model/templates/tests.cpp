// The tests of `x is ...`.
#include <algorithm>
#include <unordered_map>

#include <utf8proc.h>

#include "model/templates/builtins.hpp"
#include "model/templates/interpreter.hpp"

namespace troupe::model::jinja {

namespace {

const value& argument_of(const arguments& args) {
    if (args.positional.size() != 1 || !args.named.empty()) throw failure{"this test takes one argument"};
    return args.positional[0];
}

integer whole_of(const value& v) {
    if (v.is_undefined()) fail_undefined(v);
    const auto i = whole(v);
    if (!i) throw failure{"an integer is required, not " + std::string(type_name(v))};
    return *i;
}

bool is_iterable(const value& v) {
    return v.is_undefined() || v.as_text() != nullptr || v.as_sequence() != nullptr || v.as_dict() != nullptr ||
           v.as_loop() != nullptr;
}

bool is_sequence(const value& v) {
    return v.as_text() != nullptr || v.as_dict() != nullptr ||
           (v.as_sequence() != nullptr && v.as_sequence()->kind < form::generator);
}

/// Has at least one cased character, and none of the other case.
bool all_case(const value& v, bool want_upper) {
    const text* t = v.as_text();
    if (t == nullptr) return false;
    bool any = false;
    for (std::size_t i = 0; i < t->size(); i += char_size(t->view(), i)) {
        const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code_point(t->view(), i)));
        const bool up = category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LT;
        const bool low = category == UTF8PROC_CATEGORY_LL;
        if (want_upper ? low : up) return false;
        any = any || up || low;
    }
    return any;
}

bool same_as(const value& a, const value& b, meter& m) {
    if (a.raw().index() != b.raw().index()) return false;
    if (a.as_sequence() != nullptr) return a.as_sequence() == b.as_sequence();
    if (a.as_dict() != nullptr) return a.as_dict() == b.as_dict();
    return equal(a, b, m);
}

using table = std::unordered_map<std::string_view, native_test>;

const table& tests() {
    using I = interpreter;
    using A = arguments;
    static const table all = {
        {"defined", [](I&, const value& v, const A&) { return !v.is_undefined(); }},
        {"undefined", [](I&, const value& v, const A&) { return v.is_undefined(); }},
        {"none", [](I&, const value& v, const A&) { return v.is_none(); }},
        {"string", [](I&, const value& v, const A&) { return v.as_text() != nullptr; }},
        {"mapping", [](I&, const value& v, const A&) { return v.as_dict() != nullptr; }},
        {"number", [](I&, const value& v, const A&) { return number(v).has_value(); }},
        {"integer", [](I&, const value& v, const A&) { return v.as_integer() != nullptr; }},
        {"float", [](I&, const value& v, const A&) { return v.as_double() != nullptr; }},
        {"boolean", [](I&, const value& v, const A&) { return v.as_bool() != nullptr; }},
        {"true", [](I&, const value& v, const A&) { return v.as_bool() != nullptr && *v.as_bool(); }},
        {"false", [](I&, const value& v, const A&) { return v.as_bool() != nullptr && !*v.as_bool(); }},
        {"callable", [](I&, const value& v, const A&) { return v.as_callable() != nullptr || v.as_loop() != nullptr; }},
        {"iterable", [](I&, const value& v, const A&) { return is_iterable(v); }},
        {"sequence", [](I&, const value& v, const A&) { return is_sequence(v); }},
        {"odd", [](I&, const value& v, const A&) { return (whole_of(v) & 1) != 0; }},
        {"even", [](I&, const value& v, const A&) { return (whole_of(v) & 1) == 0; }},
        {"divisibleby",
            [](I&, const value& v, const A& a) {
                const integer by = whole_of(argument_of(a));
                if (by == 0) throw failure{"integer division or modulo by zero"};
                return by == -1 || whole_of(v) % by == 0;
            }},
        {"in", [](I& i, const value& v, const A& a) { return contains(argument_of(a), v, i.cost()); }},
        {"eq", [](I& i, const value& v, const A& a) { return equal(v, argument_of(a), i.cost()); }},
        {"ne", [](I& i, const value& v, const A& a) { return !equal(v, argument_of(a), i.cost()); }},
        {"lt", [](I& i, const value& v, const A& a) { return compare(v, argument_of(a), i.cost()) < 0; }},
        {"le", [](I& i, const value& v, const A& a) { return compare(v, argument_of(a), i.cost()) <= 0; }},
        {"gt", [](I& i, const value& v, const A& a) { return compare(v, argument_of(a), i.cost()) > 0; }},
        {"ge", [](I& i, const value& v, const A& a) { return compare(v, argument_of(a), i.cost()) >= 0; }},
        {"sameas", [](I& i, const value& v, const A& a) { return same_as(v, argument_of(a), i.cost()); }},
        {"lower", [](I&, const value& v, const A&) { return all_case(v, false); }},
        {"upper", [](I&, const value& v, const A&) { return all_case(v, true); }},
        {"escaped", [](I&, const value&, const A&) { return false; }},
        {"filter", [](I&, const value& v,
                       const A&) { return v.as_text() != nullptr && find_filter(v.as_text()->view()) != nullptr; }},
        {"test", [](I&, const value& v,
                     const A&) { return v.as_text() != nullptr && find_test(v.as_text()->view()) != nullptr; }},
    };
    return all;
}

}  // namespace

native_test find_test(std::string_view name) {
    static const std::unordered_map<std::string_view, std::string_view> aliases = {{"equalto", "eq"}, {"==", "eq"},
        {"!=", "ne"}, {"<", "lt"}, {"lessthan", "lt"}, {"<=", "le"}, {">", "gt"}, {"greaterthan", "gt"}, {">=", "ge"}};
    const auto alias = aliases.find(name);
    const auto it = tests().find(alias == aliases.end() ? name : alias->second);
    return it == tests().end() ? nullptr : it->second;
}

}  // namespace troupe::model::jinja
