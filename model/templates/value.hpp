// Values of the template language: Python's kinds as far as chat templates use them. Lists and dicts never change once
// made (the sandbox forbids it), so they are shared; only namespaces and loops have state, private to one render.
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "model/templates/meter.hpp"
#include "model/templates/text.hpp"

namespace troupe::model::jinja {

using integer = __int128;  ///< JSON's uint64 and products of int64 fit; beyond it arithmetic fails

struct sequence;
struct dict;
struct name_space;
struct callable;
struct loop_state;

struct none_type {};
struct undefined {
    std::shared_ptr<const std::string> reason;  ///< what to say if it is used; may be null
};

class value {
 public:
    using storage = std::variant<undefined, none_type, bool, integer, double, std::shared_ptr<const text>,
        std::shared_ptr<const sequence>, std::shared_ptr<const dict>, std::shared_ptr<name_space>,
        std::shared_ptr<const callable>, std::shared_ptr<loop_state>>;

    value() = default;  ///< undefined
    template <class T>
    requires(std::is_constructible_v<storage, T&&> && !std::is_same_v<std::decay_t<T>, value>) value(T&& x)
        : storage_(std::forward<T>(x)) {}
    static value none() { return none_type{}; }
    template <std::same_as<bool> B>  // else a string literal would prefer it
    static value of(B b) {
        return storage(std::in_place_type<bool>, b);
    }
    static value of(integer i) { return storage(std::in_place_type<integer>, i); }
    static value of(double d) { return storage(std::in_place_type<double>, d); }
    /// Not metered: for short texts of the engine itself.
    static value of(std::string_view s, bool from_user = false) { return std::make_shared<const text>(s, from_user); }

    bool is_undefined() const { return std::holds_alternative<undefined>(storage_); }
    bool is_none() const { return std::holds_alternative<none_type>(storage_); }
    const bool* as_bool() const { return std::get_if<bool>(&storage_); }
    const integer* as_integer() const { return std::get_if<integer>(&storage_); }
    const double* as_double() const { return std::get_if<double>(&storage_); }
    const text* as_text() const { return pointer<const text>(); }
    const sequence* as_sequence() const { return pointer<const sequence>(); }
    const dict* as_dict() const { return pointer<const dict>(); }
    name_space* as_namespace() const { return pointer<name_space>(); }
    const callable* as_callable() const { return pointer<const callable>(); }
    loop_state* as_loop() const { return pointer<loop_state>(); }
    const storage& raw() const { return storage_; }

 private:
    template <class T> T* pointer() const {
        const auto* p = std::get_if<std::shared_ptr<T>>(&storage_);
        return p == nullptr ? nullptr : p->get();
    }
    storage storage_;
};

enum class form : std::uint8_t { list, tuple, range, group, generator, keys, values, items };

struct sequence {
    form kind = form::list;
    std::vector<value> items;
    int depth = 1;
    mutable bool consumed = false;  ///< of a generator: iterated once already
};

struct dict {
    std::vector<std::pair<value, value>> items;  ///< in order of insertion
    int depth = 1;
    std::unordered_map<std::string_view, std::size_t> index;  ///< of string keys, once there are many

    const value* find(const value& key, meter& m) const;
    const value* find(std::string_view key) const;
    /// Replaces or appends. Only while the dict is being made.
    void set(value key, value v, meter& m);
    /// Call once when complete: depth and index.
    void finish();
};

struct name_space {
    std::vector<std::pair<std::string, value>> items;
    const value* find(std::string_view key) const;
    void set(std::string_view key, value v);
};

struct arguments {
    std::vector<value> positional;
    std::vector<std::pair<std::string, value>> named;
    bool names_from_user = false;  ///< some name came out of a user's dict by **
};

class interpreter;
/// A method of `self`, a filter of the value `self`, or a global function (self undefined).
using native = value (*)(interpreter&, const value& self, const arguments&);
/// A test of `self`.
using native_test = bool (*)(interpreter&, const value& self, const arguments&);

struct macro_definition;
struct scope;

struct callable {
    native function = nullptr;
    value self;
    const macro_definition* macro = nullptr;  ///< if not native
    scope* closure = nullptr;
    std::string name;
};

struct statement;

struct loop_state {
    std::vector<value> items;
    int items_depth = 0;
    std::size_t index = 0;
    int depth = 1;                         ///< of recursion
    const statement* recursive = nullptr;  ///< the loop, if it may call itself
    scope* outer = nullptr;                ///< where a recursive one was started
    std::optional<std::string> last_changed;
};

/// Levels of data inside: bounded, since destroying, printing and comparing recurse over them.
int depth_of(const value& v);
int checked_depth(int depth);

/// Bound arguments of a native function: `names` in order, null where absent. Too many or unknown ones fail.
std::vector<const value*> bind(const arguments& args, std::string_view function, std::vector<std::string_view> names);

// -- construction --------------------------------------------------------------------------------

value make_sequence(std::vector<value> items, meter& m, form kind = form::list);
value make_dict(dict d);

// -- Python's semantics --------------------------------------------------------------------------------

bool truthy(const value& v);
bool equal(const value& a, const value& b, meter& m);
/// Three-way order of numbers, strings and sequences; fails for other pairs.
int compare(const value& a, const value& b, meter& m);
bool contains(const value& container, const value& item, meter& m);
/// Type name as Python prints it in messages.
std::string_view type_name(const value& v);
/// Number value of an int, bool or float.
std::optional<double> number(const value& v);
/// Integer value of an int or bool.
std::optional<integer> whole(const value& v);
/// The items of anything iterable (strings by character, dicts by key, undefined as empty). Consumes a generator.
std::vector<value> iterate(const value& v, meter& m);
/// Fails with the reason an undefined value carries.
[[noreturn]] void fail_undefined(const value& v);

}  // namespace troupe::model::jinja
