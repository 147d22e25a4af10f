// Filters over lists, dicts and anything iterable.
#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "model/templates/builtins.hpp"
#include "model/templates/interpreter.hpp"
#include "model/templates/operators.hpp"
#include "model/templates/print.hpp"
#include "model/templates/strings.hpp"

namespace troupe::model::jinja {

namespace {

using I = interpreter;
using V = value;
using A = arguments;

bool flag(const value* v, bool absent) { return v == nullptr ? absent : truthy(*v); }

integer size_of(const value* v, std::string_view what, integer absent = -1) {
    const auto i = v == nullptr ? absent : whole(*v).value_or(-1);
    if (i < 1) throw failure{std::string(what) + " must be a positive integer"};
    return i;
}

/// "a.b.0" looked up part by part, items first; an integer is an index. Null path: the value itself.
value attribute_of(const value& v, const value* path, meter& m) {
    if (path == nullptr || path->is_none()) return v;
    if (whole(*path)) return get_item(v, *path, m);
    const text* t = path->as_text();
    if (t == nullptr) throw failure{"an attribute must be a string or a number"};
    value at = v;
    std::string_view rest = t->view();
    while (true) {
        const std::size_t dot = rest.find('.');
        const std::string_view part = rest.substr(0, dot);
        std::int64_t index = 0;
        const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
        const bool digits = error == std::errc{} && end == part.data() + part.size() && !part.empty() && part[0] != '-';
        at = get_item(at, digits ? value::of(static_cast<integer>(index)) : value::of(part), m);
        if (dot == std::string_view::npos) return at;
        rest = rest.substr(dot + 1);
    }
}

value sort_key(const value& v, bool case_sensitive, meter& m) {
    return !case_sensitive && v.as_text() != nullptr ? lower(*v.as_text(), m) : v;
}

struct keyed {
    value key, item;
};

std::vector<keyed> with_keys(const value& v, const value* attribute, bool case_sensitive, meter& m) {
    std::vector<keyed> out;
    for (value& item : iterate(v, m)) {
        value key = sort_key(attribute_of(item, attribute, m), case_sensitive, m);
        out.push_back({std::move(key), std::move(item)});
    }
    return out;
}

void sort_keyed(std::vector<keyed>& list, bool reverse, meter& m) {
    std::stable_sort(list.begin(), list.end(), [&](const keyed& a, const keyed& b) {
        return reverse ? compare(b.key, a.key, m) < 0 : compare(a.key, b.key, m) < 0;
    });
}

value list_of(std::vector<keyed> keyed_items, meter& m) {
    std::vector<value> items;
    for (auto& k : keyed_items) items.push_back(std::move(k.item));
    return make_sequence(std::move(items), m);
}

value length(I&, const V& v, const A&) {
    if (v.is_undefined()) return value::of(integer{0});
    if (const text* t = v.as_text()) return value::of(static_cast<integer>(count_chars(t->view())));
    if (const dict* d = v.as_dict()) return value::of(static_cast<integer>(d->items.size()));
    const sequence* s = v.as_sequence();
    if (s != nullptr && s->kind != form::generator) return value::of(static_cast<integer>(s->items.size()));
    throw failure{"object of type '" + std::string(type_name(v)) + "' has no len()"};
}

value default_filter(I&, const V& v, const A& args) {
    const auto a = bind(args, "default", {"default_value", "boolean"});
    const bool replaced = v.is_undefined() || (flag(a[1], false) && !truthy(v));
    return !replaced ? v : a[0] != nullptr ? *a[0] : value::of(std::string_view());
}

value join_filter(I& i, const V& v, const A& args) {
    const auto a = bind(args, "join", {"d", "attribute"});
    const value separator = a[0] == nullptr ? value::of(std::string_view()) : to_string(*a[0], i.cost());
    builder out(i.cost());
    bool first = true;
    for (const value& item : iterate(v, i.cost())) {
        if (!first) out.append(*separator.as_text());
        first = false;
        print(attribute_of(item, a[1], i.cost()), out);
    }
    return out.finish();
}

value first(I& i, const V& v, const A&) {
    const auto items = iterate(v, i.cost());
    if (items.empty()) return undefined{std::make_shared<const std::string>("No first item, sequence was empty.")};
    return items.front();
}

value last(I& i, const V& v, const A&) {
    const auto items = iterate(v, i.cost());
    if (items.empty()) return undefined{std::make_shared<const std::string>("No last item, sequence was empty.")};
    return items.back();
}

value items_filter(I& i, const V& v, const A&) {
    std::vector<value> pairs;
    if (const dict* d = v.as_dict()) {
        for (const auto& [key, item] : d->items) pairs.push_back(make_sequence({key, item}, i.cost(), form::tuple));
    } else if (!v.is_undefined()) {
        throw failure{"Can only get item pairs from a mapping."};
    }
    return make_sequence(std::move(pairs), i.cost(), form::generator);
}

value dictsort(I& i, const V& v, const A& args) {
    const auto a = bind(args, "dictsort", {"case_sensitive", "by", "reverse"});
    const dict* d = v.as_dict();
    if (d == nullptr) throw failure{"dictsort needs a mapping"};
    const bool by_value = a[1] != nullptr && a[1]->as_text() != nullptr && a[1]->as_text()->view() == "value";
    std::vector<keyed> list;
    for (const auto& [key, item] : d->items) {
        list.push_back({sort_key(by_value ? item : key, flag(a[0], false), i.cost()),
            make_sequence({key, item}, i.cost(), form::tuple)});
    }
    sort_keyed(list, flag(a[2], false), i.cost());
    return list_of(std::move(list), i.cost());
}

value sort_filter(I& i, const V& v, const A& args) {
    const auto a = bind(args, "sort", {"reverse", "case_sensitive", "attribute"});
    auto list = with_keys(v, a[2], flag(a[1], false), i.cost());
    sort_keyed(list, flag(a[0], false), i.cost());
    return list_of(std::move(list), i.cost());
}

value extreme(I& i, const V& v, const A& args, int sign) {
    const auto a = bind(args, "min/max", {"case_sensitive", "attribute"});
    const auto list = with_keys(v, a[1], flag(a[0], false), i.cost());
    if (list.empty()) return undefined{std::make_shared<const std::string>("No aggregated item, sequence was empty.")};
    const keyed* best = &list[0];
    for (const keyed& k : list) best = compare(k.key, best->key, i.cost()) * sign > 0 ? &k : best;
    return best->item;
}

value unique(I& i, const V& v, const A& args) {
    const auto a = bind(args, "unique", {"case_sensitive", "attribute"});
    std::vector<keyed> kept;
    for (keyed& k : with_keys(v, a[1], flag(a[0], false), i.cost())) {
        const bool seen =
            std::any_of(kept.begin(), kept.end(), [&](const keyed& o) { return equal(o.key, k.key, i.cost()); });
        if (!seen) kept.push_back(std::move(k));
    }
    std::vector<value> items;
    for (keyed& k : kept) items.push_back(std::move(k.item));
    return make_sequence(std::move(items), i.cost(), form::generator);
}

value groupby(I& i, const V& v, const A& args) {
    const auto a = bind(args, "groupby", {"attribute", "default", "case_sensitive"});
    if (a[0] == nullptr) throw failure{"groupby needs an attribute"};
    auto list = with_keys(v, a[0], flag(a[2], false), i.cost());
    for (keyed& k : list) {
        if (k.key.is_undefined() && a[1] != nullptr) k.key = *a[1];
    }
    sort_keyed(list, false, i.cost());
    std::vector<value> groups;
    for (std::size_t from = 0; from < list.size();) {
        std::size_t to = from;
        std::vector<value> members;
        while (to < list.size() && equal(list[from].key, list[to].key, i.cost())) members.push_back(list[to++].item);
        const value grouper = attribute_of(list[from].item, a[0], i.cost());
        groups.push_back(make_sequence(
            {grouper.is_undefined() ? list[from].key : grouper, make_sequence(std::move(members), i.cost())}, i.cost(),
            form::group));
        from = to;
    }
    return make_sequence(std::move(groups), i.cost());
}

value sum_filter(I& i, const V& v, const A& args) {
    const auto a = bind(args, "sum", {"attribute", "start"});
    value total = a[1] == nullptr ? value::of(integer{0}) : *a[1];
    if (total.as_text() != nullptr) throw failure{"sum() can't sum strings"};
    for (const value& item : iterate(v, i.cost())) total = add(total, attribute_of(item, a[0], i.cost()), i.cost());
    return total;
}

value reverse(I& i, const V& v, const A&) {
    if (v.as_text() != nullptr) return get_slice(v, {}, {}, value::of(integer{-1}), i.cost());
    auto items = iterate(v, i.cost());
    std::reverse(items.begin(), items.end());
    return make_sequence(std::move(items), i.cost(), form::generator);
}

value batch(I& i, const V& v, const A& args) {
    const auto a = bind(args, "batch", {"linecount", "fill_with"});
    const integer n = size_of(a[0], "linecount");
    std::vector<value> rows, row;
    for (value& item : iterate(v, i.cost())) {
        row.push_back(std::move(item));
        if (static_cast<integer>(row.size()) == n) rows.push_back(make_sequence(std::exchange(row, {}), i.cost()));
    }
    if (!row.empty()) {
        while (a[1] != nullptr && !a[1]->is_none() && static_cast<integer>(row.size()) < n) {
            i.cost().allocate(sizeof(value), row.size() * sizeof(value));
            row.push_back(*a[1]);
        }
        rows.push_back(make_sequence(std::move(row), i.cost()));
    }
    return make_sequence(std::move(rows), i.cost(), form::generator);
}

value slice_filter(I& i, const V& v, const A& args) {
    const auto a = bind(args, "slice", {"slices", "fill_with"});
    const integer n = size_of(a[0], "slices");
    const auto items = iterate(v, i.cost());
    const auto size = static_cast<integer>(items.size());
    std::vector<value> columns;
    std::size_t at = 0;
    for (integer k = 0; k < n; ++k) {
        i.cost().allocate(sizeof(value), columns.size() * sizeof(value));
        std::vector<value> column;
        const integer want = size / n + (k < size % n ? 1 : 0);
        for (integer j = 0; j < want; ++j) column.push_back(items[at++]);
        if (a[1] != nullptr && !a[1]->is_none() && size % n != 0 && k >= size % n) column.push_back(*a[1]);
        columns.push_back(make_sequence(std::move(column), i.cost()));
    }
    return make_sequence(std::move(columns), i.cost(), form::generator);
}

/// args without the first n positional ones.
A drop(const A& args, std::size_t n) {
    A rest = args;
    rest.positional.erase(rest.positional.begin(), rest.positional.begin() + static_cast<std::ptrdiff_t>(n));
    return rest;
}

value map_filter(I& i, const V& v, const A& args) {
    std::vector<value> out;
    if (args.positional.empty()) {
        const auto a = bind(args, "map", {"attribute", "default"});
        if (a[0] == nullptr) throw failure{"map requires a filter argument"};
        for (const value& item : iterate(v, i.cost())) {
            value got = attribute_of(item, a[0], i.cost());
            out.push_back(got.is_undefined() && a[1] != nullptr ? *a[1] : std::move(got));
        }
    } else {
        const text* name = args.positional[0].as_text();
        const native filter = name == nullptr ? nullptr : find_filter(name->view());
        if (filter == nullptr) throw failure{"No such filter for map."};
        const A rest = drop(args, 1);
        for (const value& item : iterate(v, i.cost())) out.push_back(filter(i, item, rest));
    }
    return make_sequence(std::move(out), i.cost(), form::generator);
}

value select_items(I& i, const V& v, const A& args, bool by_attribute, bool wanted) {
    const std::size_t skip = by_attribute ? 1 : 0;
    if (args.positional.size() < skip) throw failure{"Missing parameter for attribute name"};
    const value* attribute = by_attribute ? &args.positional[0] : nullptr;
    native_test test = nullptr;
    A rest;
    if (args.positional.size() > skip) {
        const text* name = args.positional[skip].as_text();
        test = name == nullptr ? nullptr : find_test(name->view());
        if (test == nullptr) throw failure{"No such test for select."};
        rest = drop(args, skip + 1);
    }
    std::vector<value> out;
    for (value& item : iterate(v, i.cost())) {
        i.cost().step();
        const value subject = attribute_of(item, attribute, i.cost());
        if ((test == nullptr ? truthy(subject) : test(i, subject, rest)) == wanted) out.push_back(std::move(item));
    }
    return make_sequence(std::move(out), i.cost(), form::generator);
}

value attr(I& i, const V& v, const A& args) {
    const auto a = bind(args, "attr", {"name"});
    if (a[0] == nullptr || a[0]->as_text() == nullptr) throw failure{"attr needs a name"};
    return get_attribute(v, a[0]->as_text()->view(), i.cost());
}

}  // namespace

native find_list_filter(std::string_view name) {
    static const std::unordered_map<std::string_view, native> all = {
        {"length", length},
        {"count", length},
        {"default", default_filter},
        {"d", default_filter},
        {"join", join_filter},
        {"first", first},
        {"last", last},
        {"items", items_filter},
        {"dictsort", dictsort},
        {"sort", sort_filter},
        {"unique", unique},
        {"groupby", groupby},
        {"sum", sum_filter},
        {"reverse", reverse},
        {"batch", batch},
        {"slice", slice_filter},
        {"map", map_filter},
        {"attr", attr},
        {"list", [](I& i, const V& v, const A&) { return make_sequence(iterate(v, i.cost()), i.cost()); }},
        {"min", [](I& i, const V& v, const A& a) { return extreme(i, v, a, -1); }},
        {"max", [](I& i, const V& v, const A& a) { return extreme(i, v, a, 1); }},
        {"select", [](I& i, const V& v, const A& a) { return select_items(i, v, a, false, true); }},
        {"reject", [](I& i, const V& v, const A& a) { return select_items(i, v, a, false, false); }},
        {"selectattr", [](I& i, const V& v, const A& a) { return select_items(i, v, a, true, true); }},
        {"rejectattr", [](I& i, const V& v, const A& a) { return select_items(i, v, a, true, false); }},
    };
    const auto it = all.find(name);
    return it == all.end() ? nullptr : it->second;
}

}  // namespace troupe::model::jinja
