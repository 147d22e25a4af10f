// Where names of filters, methods and functions are found; global functions; methods of dicts, lists and loops.
#include "model/templates/builtins.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "model/templates/format.hpp"
#include "model/templates/interpreter.hpp"
#include "model/templates/print.hpp"

namespace troupe::model::jinja {

namespace {

using I = interpreter;
using V = value;
using A = arguments;

constexpr integer max_range = 100'000;  // as jinja's sandbox

// -- functions --------------------------------------------------------------------------------

value range(I& i, const V&, const A& args) {
    const auto a = bind(args, "range", {"start", "stop", "step"});
    const auto get = [&](const value* v, integer absent) {
        if (v == nullptr) return absent;
        if (v->is_undefined()) fail_undefined(*v);
        const auto n = whole(*v);
        if (!n) throw failure{"'" + std::string(type_name(*v)) + "' object cannot be interpreted as an integer"};
        return *n;
    };
    if (a[0] == nullptr) throw failure{"range expected at least 1 argument"};
    integer start = a[1] == nullptr ? 0 : get(a[0], 0), stop = get(a[1] == nullptr ? a[0] : a[1], 0);
    const integer step = get(a[2], 1), limit = integer{1} << 100;
    if (step == 0) throw failure{"range() arg 3 must not be zero"};
    if (start > limit || start < -limit || stop > limit || stop < -limit) throw failure{"range too large"};
    integer count = 0;
    if (step > 0 && stop > start) count = (stop - start - 1) / step + 1;
    if (step < 0 && stop < start) count = step < -limit ? 1 : (start - stop - 1) / -step + 1;
    if (count > max_range) throw failure{"Range too big. The sandbox blocks ranges larger than 100000."};
    std::vector<value> items;
    for (integer k = 0; k < count; ++k) items.push_back(value::of(start + k * step));
    return make_sequence(std::move(items), i.cost(), form::range);
}

/// The user's words inside a message for the client are no danger: the mark is dropped.
value raise_exception(I& i, const V&, const A& args) {
    const auto a = bind(args, "raise_exception", {"message"});
    value message = to_string(a[0] == nullptr ? value::of(std::string_view()) : *a[0], i.cost());
    throw failure{std::string(message.as_text()->view()), -1};
}

value strftime_now(I& i, const V&, const A& args) {
    const auto a = bind(args, "strftime_now", {"format"});
    if (a[0] == nullptr || a[0]->as_text() == nullptr) throw failure{"strftime_now needs a format"};
    const text& pattern = *a[0]->as_text();
    return value::of(std::string_view(format_time(pattern.view(), i.now())), pattern.any_from_user());
}

/// dict(mapping, key=value, ...), also of pairs.
dict dict_of(I& i, const A& args) {
    dict d;
    if (args.positional.size() > 1) throw failure{"dict expected at most 1 argument"};
    if (!args.positional.empty()) {
        const value& from = args.positional[0];
        if (const dict* other = from.as_dict()) {
            for (const auto& [key, v] : other->items) d.set(key, v, i.cost());
        } else {
            for (const value& pair : iterate(from, i.cost())) {
                auto two = iterate(pair, i.cost());
                if (two.size() != 2) throw failure{"dict() needs pairs"};
                d.set(std::move(two[0]), std::move(two[1]), i.cost());
            }
        }
    }
    for (const auto& [name, v] : args.named)
        d.set(value::of(std::string_view(name), args.names_from_user), v, i.cost());
    return d;
}

value make_dict_value(I& i, const V&, const A& args) { return make_dict(dict_of(i, args)); }

value make_namespace(I& i, const V&, const A& args) {
    name_space n;
    for (const auto& [key, v] : dict_of(i, args).items) {
        if (key.as_text() != nullptr) n.set(key.as_text()->view(), v);
    }
    return i.make_namespace(std::move(n));
}

// -- methods of dicts, lists and loops --------------------------------------------------------------------------------

value items(I& i, const V& self, const A&) {
    std::vector<value> out;
    for (const auto& [key, v] : self.as_dict()->items) out.push_back(make_sequence({key, v}, i.cost(), form::tuple));
    return make_sequence(std::move(out), i.cost(), form::items);
}

value keys(I& i, const V& self, const A&) {
    std::vector<value> out;
    for (const auto& [key, v] : self.as_dict()->items) out.push_back(key);
    return make_sequence(std::move(out), i.cost(), form::keys);
}

value values(I& i, const V& self, const A&) {
    std::vector<value> out;
    for (const auto& [key, v] : self.as_dict()->items) out.push_back(v);
    return make_sequence(std::move(out), i.cost(), form::values);
}

value get(I& i, const V& self, const A& args) {
    const auto a = bind(args, "get", {"key", "default"});
    if (a[0] == nullptr) throw failure{"get expected at least 1 argument"};
    if (const value* v = self.as_dict()->find(*a[0], i.cost())) return *v;
    return a[1] == nullptr ? value::none() : *a[1];
}

value list_count(I& i, const V& self, const A& args) {
    const auto a = bind(args, "count", {"value"});
    integer n = 0;
    for (const value& v : self.as_sequence()->items) n += a[0] != nullptr && equal(v, *a[0], i.cost()) ? 1 : 0;
    return value::of(n);
}

value list_index(I& i, const V& self, const A& args) {
    const auto a = bind(args, "index", {"value"});
    const auto& list = self.as_sequence()->items;
    for (std::size_t k = 0; k < list.size(); ++k) {
        if (a[0] != nullptr && equal(list[k], *a[0], i.cost())) return value::of(static_cast<integer>(k));
    }
    throw failure{"value is not in list"};
}

value cycle(I&, const V& self, const A& args) {
    if (args.positional.empty()) throw failure{"no items for cycling given"};
    return args.positional[self.as_loop()->index % args.positional.size()];
}

value changed(I& i, const V& self, const A& args) {
    builder now(i.cost());
    for (const value& v : args.positional) {
        print_repr(v, now);
        now.append(",", false);
    }
    const std::string seen(now.take().view());
    loop_state& loop = *self.as_loop();
    if (loop.last_changed == seen) return value::of(false);
    loop.last_changed = seen;
    return value::of(true);
}

native find_in(std::initializer_list<std::pair<std::string_view, native>> list, std::string_view name) {
    for (const auto& [key, function] : list) {
        if (key == name) return function;
    }
    return nullptr;
}

value itself(I&, const V& self, const A&) { return self; }  // copy() of what cannot change

}  // namespace

native find_filter(std::string_view name) {
    const native f = find_text_filter(name);
    return f != nullptr ? f : find_list_filter(name);
}

native find_global(std::string_view name) {
    return find_in({{"range", range}, {"raise_exception", raise_exception}, {"strftime_now", strftime_now},
                       {"dict", make_dict_value}, {"namespace", make_namespace}},
        name);
}

native find_method(const value& self, std::string_view name) {
    if (self.as_text() != nullptr) return find_string_method(name);
    if (self.as_dict() != nullptr) {
        return find_in({{"items", items}, {"keys", keys}, {"values", values}, {"get", get}, {"copy", itself}}, name);
    }
    if (const sequence* s = self.as_sequence(); s != nullptr && s->kind < form::generator) {
        if (s->kind == form::list && name == "copy") return itself;
        return find_in({{"count", list_count}, {"index", list_index}}, name);
    }
    if (self.as_loop() != nullptr) return find_in({{"cycle", cycle}, {"changed", changed}}, name);
    return nullptr;
}

bool is_unsafe_method(const value& self, std::string_view name) {
    static constexpr std::array<std::string_view, 8> list = {
        "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
    static constexpr std::array<std::string_view, 5> mapping = {"clear", "pop", "popitem", "setdefault", "update"};
    if (self.as_dict() != nullptr) return std::find(mapping.begin(), mapping.end(), name) != mapping.end();
    const sequence* s = self.as_sequence();
    return s != nullptr && s->kind == form::list && std::find(list.begin(), list.end(), name) != list.end();
}

}  // namespace troupe::model::jinja
