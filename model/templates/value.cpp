// Truth, equality, order and iteration of template values.
#include "model/templates/value.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::model::jinja {

namespace {

constexpr std::size_t indexed_from = 12;  // below this many keys a scan beats hashing

}  // namespace

int depth_of(const value& v) {
    if (const auto* s = v.as_sequence()) return s->depth;
    if (const auto* d = v.as_dict()) return d->depth;
    if (const auto* c = v.as_callable()) return c->self.as_callable() == nullptr ? depth_of(c->self) + 1 : 1;
    if (const auto* l = v.as_loop()) return l->items_depth + 1;
    return 0;
}

int checked_depth(int depth) {
    if (depth > max_value_depth) throw failure{"data nested too deeply"};
    return depth;
}

const value* dict::find(std::string_view key) const {
    if (!index.empty()) {
        const auto it = index.find(key);
        return it == index.end() ? nullptr : &items[it->second].second;
    }
    for (const auto& [k, v] : items) {
        const text* t = k.as_text();
        if (t != nullptr && t->view() == key) return &v;
    }
    return nullptr;
}

const value* dict::find(const value& key, meter& m) const {
    if (const text* t = key.as_text()) {
        m.scan(t->size());
        return find(t->view());
    }
    for (const auto& [k, v] : items) {
        if (equal(k, key, m)) return &v;
    }
    return nullptr;
}

void dict::set(value key, value v, meter& m) {
    if (key.as_dict() != nullptr || (key.as_sequence() != nullptr && key.as_sequence()->kind == form::list)) {
        throw failure{"unhashable type: '" + std::string(type_name(key)) + "'"};
    }
    m.step(static_cast<std::int64_t>(items.size() / 16));
    if (const value* old = find(key, m)) {
        *const_cast<value*>(old) = std::move(v);  // still under construction, so not shared
        return;
    }
    m.allocate(sizeof(value) * 2, items.size() * sizeof(value) * 2);
    items.emplace_back(std::move(key), std::move(v));
}

void dict::finish() {
    int deepest = 0;
    for (const auto& [k, v] : items) deepest = std::max({deepest, depth_of(k), depth_of(v)});
    depth = checked_depth(deepest + 1);
    index.clear();
    if (items.size() < indexed_from) return;
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (const text* t = items[i].first.as_text()) index.emplace(t->view(), i);
    }
}

const value* name_space::find(std::string_view key) const {
    for (const auto& [k, v] : items) {
        if (k == key) return &v;
    }
    return nullptr;
}

void name_space::set(std::string_view key, value v) {
    if (const value* old = find(key)) {
        *const_cast<value*>(old) = std::move(v);
    } else {
        items.emplace_back(key, std::move(v));
    }
}

std::vector<const value*> bind(const arguments& args, std::string_view function, std::vector<std::string_view> names) {
    if (args.positional.size() > names.size()) throw failure{std::string(function) + "() takes fewer arguments"};
    std::vector<const value*> bound(names.size(), nullptr);
    for (std::size_t i = 0; i < args.positional.size(); ++i) bound[i] = &args.positional[i];
    for (const auto& [name, v] : args.named) {
        const auto it = std::find(names.begin(), names.end(), name);
        if (it == names.end()) {
            throw failure{std::string(function) + "() got an unexpected keyword argument '" + name + "'"};
        }
        bound[static_cast<std::size_t>(it - names.begin())] = &v;
    }
    return bound;
}

value make_sequence(std::vector<value> items, meter& m, form kind) {
    m.step(static_cast<std::int64_t>(items.size()));
    m.allocate(items.size() * sizeof(value));
    int deepest = 0;
    for (const value& v : items) deepest = std::max(deepest, depth_of(v));
    auto s = std::make_shared<sequence>();
    s->kind = kind;
    s->items = std::move(items);
    s->depth = checked_depth(deepest + 1);
    return std::shared_ptr<const sequence>(std::move(s));
}

value make_dict(dict d) {
    auto shared = std::make_shared<dict>(std::move(d));
    shared->finish();
    return std::shared_ptr<const dict>(std::move(shared));
}

bool truthy(const value& v) {
    if (v.is_undefined() || v.is_none()) return false;
    if (const bool* b = v.as_bool()) return *b;
    if (const integer* i = v.as_integer()) return *i != 0;
    if (const double* d = v.as_double()) return *d != 0;
    if (const text* t = v.as_text()) return !t->empty();
    if (const sequence* s = v.as_sequence()) return s->kind == form::generator || !s->items.empty();
    if (const dict* d = v.as_dict()) return !d->items.empty();
    return true;
}

std::optional<integer> whole(const value& v) {
    if (const integer* i = v.as_integer()) return *i;
    if (const bool* b = v.as_bool()) return *b ? 1 : 0;
    return std::nullopt;
}

std::optional<double> number(const value& v) {
    if (const double* d = v.as_double()) return *d;
    if (const auto i = whole(v)) return static_cast<double>(*i);
    return std::nullopt;
}

namespace {

bool equal_sequences(const sequence& a, const sequence& b, meter& m) {
    if (&a == &b) return true;
    const bool same_kind = a.kind == b.kind || (a.kind == form::group && b.kind == form::tuple) ||
                           (a.kind == form::tuple && b.kind == form::group);
    if (!same_kind || a.kind == form::generator || a.items.size() != b.items.size()) return false;
    for (std::size_t i = 0; i < a.items.size(); ++i) {
        if (!equal(a.items[i], b.items[i], m)) return false;
    }
    return true;
}

bool equal_dicts(const dict& a, const dict& b, meter& m) {
    if (&a == &b) return true;
    if (a.items.size() != b.items.size()) return false;
    for (const auto& [k, v] : a.items) {
        const value* other = b.find(k, m);
        if (other == nullptr || !equal(v, *other, m)) return false;
    }
    return true;
}

}  // namespace

bool equal(const value& a, const value& b, meter& m) {
    m.step();
    if (const text* x = a.as_text()) {
        const text* y = b.as_text();
        if (y == nullptr || x->size() != y->size()) return false;
        m.scan(x->size());
        return x->view() == y->view();
    }
    if (const auto x = whole(a), y = whole(b); x && y) return *x == *y;
    if (const auto x = number(a), y = number(b); x && y) return *x == *y;
    if (a.as_sequence() != nullptr && b.as_sequence() != nullptr) {
        return equal_sequences(*a.as_sequence(), *b.as_sequence(), m);
    }
    if (a.as_dict() != nullptr && b.as_dict() != nullptr) return equal_dicts(*a.as_dict(), *b.as_dict(), m);
    if (a.is_undefined() || a.is_none()) return a.raw().index() == b.raw().index();
    if (a.as_namespace() != nullptr) return a.as_namespace() == b.as_namespace();
    if (a.as_callable() != nullptr) return a.as_callable() == b.as_callable();
    return false;
}

int compare(const value& a, const value& b, meter& m) {
    m.step();
    if (a.is_undefined()) fail_undefined(a);
    if (b.is_undefined()) fail_undefined(b);
    if (a.as_text() != nullptr && b.as_text() != nullptr) {
        m.scan(std::min(a.as_text()->size(), b.as_text()->size()));
        const int order = a.as_text()->view().compare(b.as_text()->view());  // UTF-8 sorts as code points do
        return order < 0 ? -1 : order > 0;
    }
    if (const auto x = whole(a), y = whole(b); x && y) return *x < *y ? -1 : *x > *y;
    if (const auto x = number(a), y = number(b); x && y) return *x < *y ? -1 : *x > *y;
    const sequence* x = a.as_sequence();
    const sequence* y = b.as_sequence();
    if (x != nullptr && y != nullptr && x->kind == y->kind && x->kind <= form::tuple) {
        for (std::size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i) {
            if (!equal(x->items[i], y->items[i], m)) return compare(x->items[i], y->items[i], m);
        }
        return x->items.size() < y->items.size() ? -1 : x->items.size() > y->items.size();
    }
    throw failure{"order not supported between instances of '" + std::string(type_name(a)) + "' and '" +
                  std::string(type_name(b)) + "'"};
}

bool contains(const value& container, const value& item, meter& m) {
    if (const text* t = container.as_text()) {
        const text* needle = item.as_text();
        if (item.is_undefined()) fail_undefined(item);
        if (needle == nullptr) throw failure{"'in <string>' requires string as left operand"};
        m.scan(t->size());
        return find(t->view(), needle->view()) != std::string_view::npos;
    }
    if (const dict* d = container.as_dict()) return d->find(item, m) != nullptr;
    for (const value& v : iterate(container, m)) {
        if (equal(v, item, m)) return true;
    }
    return false;
}

std::string_view type_name(const value& v) {
    if (v.is_undefined()) return "Undefined";
    if (v.is_none()) return "NoneType";
    if (v.as_bool() != nullptr) return "bool";
    if (v.as_integer() != nullptr) return "int";
    if (v.as_double() != nullptr) return "float";
    if (v.as_text() != nullptr) return "str";
    if (v.as_dict() != nullptr) return "dict";
    if (v.as_namespace() != nullptr) return "Namespace";
    if (v.as_callable() != nullptr) return "function";
    if (v.as_loop() != nullptr) return "LoopContext";
    switch (v.as_sequence()->kind) {
    case form::list:
        return "list";
    case form::tuple:
        return "tuple";
    case form::range:
        return "range";
    case form::group:
        return "tuple";
    case form::generator:
        return "generator";
    case form::keys:
        return "dict_keys";
    case form::values:
        return "dict_values";
    case form::items:
        return "dict_items";
    }
    return "object";
}

std::vector<value> iterate(const value& v, meter& m) {
    std::vector<value> out;
    if (v.is_undefined()) return out;
    if (const sequence* s = v.as_sequence()) {
        if (s->kind == form::generator) {
            if (s->consumed) return out;
            s->consumed = true;
        }
        m.step(static_cast<std::int64_t>(s->items.size() / 8));
        m.allocate(s->items.size() * sizeof(value));
        return s->items;
    }
    if (const dict* d = v.as_dict()) {
        m.allocate(d->items.size() * sizeof(value));
        out.reserve(d->items.size());
        for (const auto& [k, ignored] : d->items) out.push_back(k);
        return out;
    }
    if (const text* t = v.as_text()) {
        const auto offsets = char_offsets(t->view());
        m.step(static_cast<std::int64_t>(offsets.size()));
        m.allocate(offsets.size() * (sizeof(value) + sizeof(text) + 32));
        out.reserve(offsets.size());
        for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
            auto c = std::make_shared<text>();
            c->append(*t, offsets[i], offsets[i + 1]);
            out.emplace_back(std::shared_ptr<const text>(std::move(c)));
        }
        return out;
    }
    if (loop_state* loop = v.as_loop()) return loop->items;
    throw failure{"'" + std::string(type_name(v)) + "' object is not iterable"};
}

void fail_undefined(const value& v) {
    const auto* u = std::get_if<undefined>(&v.raw());
    throw failure{u != nullptr && u->reason ? *u->reason : std::string("an undefined value is used")};
}

}  // namespace troupe::model::jinja
