// Python's operators on template values; integers fail instead of overflowing.
#include "model/templates/operators.hpp"

#include <algorithm>
#include <cmath>

#include "model/templates/builder.hpp"
#include "model/templates/builtins.hpp"
#include "model/templates/format.hpp"
#include "model/templates/print.hpp"

namespace troupe::model::jinja {

namespace {

[[noreturn]] void unsupported(std::string_view op, const value& a, const value& b) {
    if (a.is_undefined()) fail_undefined(a);
    if (b.is_undefined()) fail_undefined(b);
    throw failure{"unsupported operand type(s) for " + std::string(op) + ": '" + std::string(type_name(a)) + "' and '" +
                  std::string(type_name(b)) + "'"};
}

[[noreturn]] void overflow() { throw failure{"integer too large"}; }

struct doubles {
    double a, b;
};

doubles both(std::string_view op, const value& a, const value& b) {
    const auto x = number(a), y = number(b);
    if (!x || !y) unsupported(op, a, b);
    return {*x, *y};
}

value repeat_text(const text& t, integer n, meter& m) {
    builder out(m);
    if (t.empty()) return out.finish();
    for (integer i = 0; i < n; ++i) out.append(t);
    return out.finish();
}

value repeat_list(const sequence& s, integer n, meter& m) {
    std::vector<value> items;
    if (s.items.empty()) return make_sequence({}, m, s.kind);
    for (integer i = 0; i < n; ++i) {
        m.allocate(s.items.size() * sizeof(value), items.size() * sizeof(value));
        items.insert(items.end(), s.items.begin(), s.items.end());
    }
    return make_sequence(std::move(items), m, s.kind);
}

integer floor_quotient(integer a, integer b) {
    integer q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

}  // namespace

value add(const value& a, const value& b, meter& m) {
    if (const auto x = whole(a), y = whole(b); x && y) {
        integer r = 0;
        if (__builtin_add_overflow(*x, *y, &r)) overflow();
        return value::of(r);
    }
    if (const auto x = number(a), y = number(b); x && y) return value::of(*x + *y);
    if (const text* x = a.as_text()) {
        if (b.is_undefined()) fail_undefined(b);
        const text* y = b.as_text();
        if (y == nullptr) {
            throw failure{"can only concatenate str (not \"" + std::string(type_name(b)) + "\") to str"};
        }
        builder out(m);
        out.append(*x);
        out.append(*y);
        return out.finish();
    }
    const sequence *x = a.as_sequence(), *y = b.as_sequence();
    if (x != nullptr && y != nullptr && x->kind == y->kind && x->kind <= form::tuple) {
        m.allocate((x->items.size() + y->items.size()) * sizeof(value));
        std::vector<value> items = x->items;
        items.insert(items.end(), y->items.begin(), y->items.end());
        return make_sequence(std::move(items), m, x->kind);
    }
    unsupported("+", a, b);
}

value subtract(const value& a, const value& b) {
    if (const auto x = whole(a), y = whole(b); x && y) {
        integer r = 0;
        if (__builtin_sub_overflow(*x, *y, &r)) overflow();
        return value::of(r);
    }
    const auto [x, y] = both("-", a, b);
    return value::of(x - y);
}

value multiply(const value& a, const value& b, meter& m) {
    if (const auto x = whole(a), y = whole(b); x && y) {
        integer r = 0;
        if (__builtin_mul_overflow(*x, *y, &r)) overflow();
        return value::of(r);
    }
    if (const auto x = number(a), y = number(b); x && y) return value::of(*x * *y);
    const auto n = whole(b);
    if (a.as_text() != nullptr && n) return repeat_text(*a.as_text(), *n, m);
    if (a.as_sequence() != nullptr && a.as_sequence()->kind <= form::tuple && n) {
        return repeat_list(*a.as_sequence(), *n, m);
    }
    if (whole(a) && (b.as_text() != nullptr || b.as_sequence() != nullptr)) return multiply(b, a, m);
    unsupported("*", a, b);
}

value divide(const value& a, const value& b) {
    const auto [x, y] = both("/", a, b);
    if (y == 0) throw failure{"division by zero"};
    return value::of(x / y);
}

value floor_divide(const value& a, const value& b) {
    if (const auto x = whole(a), y = whole(b); x && y) {
        if (*y == 0) throw failure{"integer division or modulo by zero"};
        if (*y == -1) return negate(a);  // the one quotient that can overflow
        return value::of(floor_quotient(*x, *y));
    }
    const auto [x, y] = both("//", a, b);
    if (y == 0) throw failure{"float floor division by zero"};
    return value::of(std::floor(x / y));
}

value modulo(const value& a, const value& b, meter& m) {
    if (a.as_text() != nullptr) return format_percent(*a.as_text(), b, m);
    if (const auto x = whole(a), y = whole(b); x && y) {
        if (*y == 0) throw failure{"integer division or modulo by zero"};
        if (*y == -1) return value::of(integer{0});
        return value::of(*x - floor_quotient(*x, *y) * *y);
    }
    const auto [x, y] = both("%", a, b);
    if (y == 0) throw failure{"float modulo"};
    const double r = std::fmod(x, y);
    return value::of(r != 0 && (r < 0) != (y < 0) ? r + y : r);
}

value power(const value& a, const value& b) {
    const auto x = whole(a), y = whole(b);
    if (x && y && *y >= 0) {
        integer base = *x, result = 1;
        for (integer n = *y; n > 0; n >>= 1) {
            if ((n & 1) != 0 && __builtin_mul_overflow(result, base, &result)) overflow();
            if (n > 1 && __builtin_mul_overflow(base, base, &base)) overflow();
        }
        return value::of(result);
    }
    const auto [base, exponent] = both("** or pow()", a, b);
    if (base == 0 && exponent < 0) throw failure{"0.0 cannot be raised to a negative power"};
    return value::of(std::pow(base, exponent));
}

value negate(const value& a) {
    if (const auto x = whole(a)) {
        integer r = 0;
        if (__builtin_sub_overflow(integer{0}, *x, &r)) overflow();
        return value::of(r);
    }
    if (const double* d = a.as_double()) return value::of(-*d);
    if (a.is_undefined()) fail_undefined(a);
    throw failure{"bad operand type for unary -: '" + std::string(type_name(a)) + "'"};
}

// -- access --------------------------------------------------------------------------------

namespace {

value missing(std::string reason) { return undefined{std::make_shared<const std::string>(std::move(reason))}; }

std::string object_name(const value& v) {
    return v.is_none() ? "'None'" : "'" + std::string(type_name(v)) + " object'";
}

value loop_attribute(const loop_state& loop, std::string_view name) {
    const auto n = static_cast<integer>(loop.items.size()), i = static_cast<integer>(loop.index);
    if (name == "index") return value::of(i + 1);
    if (name == "index0") return value::of(i);
    if (name == "revindex") return value::of(n - i);
    if (name == "revindex0") return value::of(n - i - 1);
    if (name == "first") return value::of(i == 0);
    if (name == "last") return value::of(i == n - 1);
    if (name == "length") return value::of(n);
    if (name == "depth") return value::of(static_cast<integer>(loop.depth));
    if (name == "depth0") return value::of(static_cast<integer>(loop.depth - 1));
    if (name == "previtem" && i > 0) return loop.items[loop.index - 1];
    if (name == "nextitem" && i + 1 < n) return loop.items[loop.index + 1];
    if (name == "previtem") return missing("there is no previous item");
    if (name == "nextitem") return missing("there is no next item");
    return missing("'LoopContext object' has no attribute '" + std::string(name) + "'");
}

/// An attribute that is no method: item of a dict, field of a namespace, a loop or a group.
const value* field(const value& v, std::string_view name) {
    if (const dict* d = v.as_dict()) return d->find(name);
    if (const name_space* n = v.as_namespace()) return n->find(name);
    if (const sequence* s = v.as_sequence(); s != nullptr && s->kind == form::group) {
        if (name == "grouper") return &s->items[0];
        if (name == "list") return &s->items[1];
    }
    return nullptr;
}

value method_or_missing(const value& v, std::string_view name) {
    if (const native method = find_method(v, name)) {
        auto c = std::make_shared<callable>();
        c->function = method;
        c->self = v;
        checked_depth(depth_of(v) + 1);
        c->name = name;
        return std::shared_ptr<const callable>(std::move(c));
    }
    if (is_unsafe_method(v, name)) {
        return missing(
            "access to attribute '" + std::string(name) + "' of '" + std::string(type_name(v)) + "' object is unsafe.");
    }
    return missing(object_name(v) + " has no attribute '" + std::string(name) + "'");
}

/// Python's index into `n` items; nothing if out of range.
std::optional<std::size_t> index_of(integer i, std::size_t n) {
    if (i < 0) i += static_cast<integer>(n);
    if (i < 0 || i >= static_cast<integer>(n)) return std::nullopt;
    return static_cast<std::size_t>(i);
}

struct range_of_slice {
    integer start, count, step;
};

range_of_slice resolve(const value& start, const value& stop, const value& step, std::size_t n) {
    const auto bound = [&](const value& v) -> std::optional<integer> {
        if (v.is_none() || v.is_undefined()) return std::nullopt;
        const auto i = whole(v);
        if (!i) throw failure{"slice indices must be integers or None"};
        return i;
    };
    const integer size = static_cast<integer>(n), by = bound(step).value_or(1);
    if (by == 0) throw failure{"slice step cannot be zero"};
    const auto clamp = [&](std::optional<integer> i, integer absent) {
        if (!i) return absent;
        const integer at = *i < 0 ? *i + size : *i;
        return by > 0 ? std::clamp<integer>(at, 0, size) : std::clamp<integer>(at, -1, size - 1);
    };
    const integer from = clamp(bound(start), by > 0 ? 0 : size - 1);
    const integer to = clamp(bound(stop), by > 0 ? size : -1);
    integer count = 0;
    if (by > 0 && to > from) count = (to - from - 1) / by + 1;
    if (by < 0 && to < from) count = by < -size ? 1 : (from - to - 1) / -by + 1;
    return {from, count, by};
}

value slice_text(const text& t, const value& start, const value& stop, const value& step, meter& m) {
    const std::string_view s = t.view();
    m.allocate(s.size());
    const auto offsets = char_offsets(s);
    const auto r = resolve(start, stop, step, offsets.size() - 1);
    builder out(m);
    if (r.count > 0 && r.step == 1) {
        out.append(t, offsets[static_cast<std::size_t>(r.start)], offsets[static_cast<std::size_t>(r.start + r.count)]);
        return out.finish();
    }
    for (integer k = 0; k < r.count; ++k) {
        const auto i = static_cast<std::size_t>(r.start + k * r.step);
        out.append(s.substr(offsets[i], offsets[i + 1] - offsets[i]), t.from_user_at(offsets[i]));
    }
    return out.finish();
}

}  // namespace

value get_attribute(const value& v, std::string_view name, meter& m) {
    m.step();
    if (v.is_undefined()) fail_undefined(v);
    if (const loop_state* loop = v.as_loop(); loop != nullptr && find_method(v, name) == nullptr) {
        return loop_attribute(*loop, name);
    }
    if (v.as_namespace() == nullptr && (find_method(v, name) != nullptr || is_unsafe_method(v, name))) {
        return method_or_missing(v, name);
    }
    if (const value* f = field(v, name)) return *f;
    return method_or_missing(v, name);
}

value get_item(const value& v, const value& key, meter& m) {
    m.step();
    if (v.is_undefined()) fail_undefined(v);
    if (const dict* d = v.as_dict()) {
        if (const value* item = d->find(key, m)) return *item;
    } else if (const auto i = whole(key)) {
        const sequence* s = v.as_sequence();
        if (s != nullptr && s->kind < form::generator) {
            if (const auto at = index_of(*i, s->items.size())) return s->items[*at];
            return missing(std::string(type_name(v)) + " object has no element " + print_integer(*i));
        }
        if (const text* t = v.as_text()) {
            m.scan(t->size());
            const auto offsets = char_offsets(t->view());
            if (const auto at = index_of(*i, offsets.size() - 1))
                return slice_of(*t, offsets[*at], offsets[*at + 1], m);
            return missing("str object has no element " + print_integer(*i));
        }
    }
    if (const text* name = key.as_text()) {
        if (v.as_dict() == nullptr) return get_attribute(v, name->view(), m);
        return method_or_missing(v, name->view());
    }
    return missing(object_name(v) + " has no such element");
}

value get_slice(const value& v, const value& start, const value& stop, const value& step, meter& m) {
    if (v.is_undefined()) fail_undefined(v);
    if (const text* t = v.as_text()) return slice_text(*t, start, stop, step, m);
    const sequence* s = v.as_sequence();
    if (s == nullptr || s->kind >= form::generator) {
        return missing(object_name(v) + " cannot be sliced");
    }
    const auto r = resolve(start, stop, step, s->items.size());
    std::vector<value> items;
    items.reserve(static_cast<std::size_t>(r.count));
    for (integer k = 0; k < r.count; ++k) items.push_back(s->items[static_cast<std::size_t>(r.start + k * r.step)]);
    return make_sequence(std::move(items), m, s->kind);
}

}  // namespace troupe::model::jinja
