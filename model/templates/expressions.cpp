// Expressions: evaluation of the syntax tree, node by node.
#include <utility>

#include "model/templates/builtins.hpp"
#include "model/templates/interpreter.hpp"
#include "model/templates/operators.hpp"
#include "model/templates/print.hpp"

namespace troupe::model::jinja {

value interpreter::evaluate(const expression& e, scope& s) {
    const auto level = cost_.frame();
    cost_.step();
    try {
        return evaluate_node(e, s);
    } catch (failure& f) {
        if (f.line == 0) f.line = e.line;
        throw;
    }
}

value interpreter::evaluate_node(const expression& e, scope& s) {
    switch (e.kind) {
    case expr_kind::constant:
        return e.constant;
    case expr_kind::name:
        return look_up(e, s);
    case expr_kind::list:
    case expr_kind::tuple: {
        std::vector<value> items;
        for (const auto& o : e.operands) items.push_back(evaluate(*o, s));
        return make_sequence(std::move(items), cost_, e.kind == expr_kind::list ? form::list : form::tuple);
    }
    case expr_kind::dict:
        return make_dict_of(e, s);
    case expr_kind::attribute:
        return get_attribute(evaluate(*e.operands[0], s), e.name, cost_);
    case expr_kind::subscript: {
        const value object = evaluate(*e.operands[0], s);
        const expression& key = *e.operands[1];
        if (key.kind != expr_kind::slice) return get_item(object, evaluate(key, s), cost_);
        value bounds[3];
        for (std::size_t i = 0; i < 3; ++i) {
            if (key.operands[i]) bounds[i] = evaluate(*key.operands[i], s);
        }
        return get_slice(object, bounds[0], bounds[1], bounds[2], cost_);
    }
    case expr_kind::slice:
        throw failure{"a slice is no value"};
    case expr_kind::call: {
        const value function = evaluate(*e.operands[0], s);
        return call(function, evaluate_arguments(e.args, s));
    }
    case expr_kind::filter:
        return apply_filter(e, nullptr, s);
    case expr_kind::test:
        if (e.test == nullptr) throw failure{"No test named '" + e.name + "' found."};
        return value::of(e.test(*this, evaluate(*e.operands[0], s), evaluate_arguments(e.args, s)));
    case expr_kind::logical_not:
        return value::of(!truthy(evaluate(*e.operands[0], s)));
    case expr_kind::concat:
        return concatenate(e, s);
    case expr_kind::compare:
        return compare_chain(e, s);
    case expr_kind::logical_and:
    case expr_kind::logical_or: {
        value left = evaluate(*e.operands[0], s);
        return truthy(left) == (e.kind == expr_kind::logical_or) ? left : evaluate(*e.operands[1], s);
    }
    case expr_kind::conditional:
        if (truthy(evaluate(*e.operands[0], s))) return evaluate(*e.operands[1], s);
        if (e.operands[2]) return evaluate(*e.operands[2], s);
        return undefined{std::make_shared<const std::string>("the inline if has no else and its test failed")};
    default:
        return binary(e, s);
    }
}

value interpreter::binary(const expression& e, scope& s) {
    const value a = evaluate(*e.operands[0], s);
    if (e.kind == expr_kind::negate) return negate(a);
    if (e.kind == expr_kind::plus) return add(value::of(integer{0}), a, cost_);
    const value b = evaluate(*e.operands[1], s);
    switch (e.kind) {
    case expr_kind::add:
        return add(a, b, cost_);
    case expr_kind::subtract:
        return subtract(a, b);
    case expr_kind::multiply:
        return multiply(a, b, cost_);
    case expr_kind::divide:
        return divide(a, b);
    case expr_kind::floor_divide:
        return floor_divide(a, b);
    case expr_kind::modulo:
        return modulo(a, b, cost_);
    default:
        return power(a, b);
    }
}

value interpreter::look_up(const expression& e, scope& s) {
    if (const value* v = s.find(e.name)) return *v;
    if (const native function = find_global(e.name)) {
        auto c = std::make_shared<callable>();
        c->function = function;
        c->name = e.name;
        return std::shared_ptr<const callable>(std::move(c));
    }
    return undefined{std::make_shared<const std::string>("'" + e.name + "' is undefined")};
}

value interpreter::compare_chain(const expression& e, scope& s) {
    value left = evaluate(*e.operands[0], s);
    for (std::size_t i = 0; i < e.comparisons.size(); ++i) {
        value right = evaluate(*e.operands[i + 1], s);
        bool holds = false;
        switch (e.comparisons[i]) {
        case compare_op::eq:
            holds = equal(left, right, cost_);
            break;
        case compare_op::ne:
            holds = !equal(left, right, cost_);
            break;
        case compare_op::lt:
            holds = compare(left, right, cost_) < 0;
            break;
        case compare_op::le:
            holds = compare(left, right, cost_) <= 0;
            break;
        case compare_op::gt:
            holds = compare(left, right, cost_) > 0;
            break;
        case compare_op::ge:
            holds = compare(left, right, cost_) >= 0;
            break;
        case compare_op::in:
            holds = contains(right, left, cost_);
            break;
        case compare_op::not_in:
            holds = !contains(right, left, cost_);
            break;
        }
        if (!holds) return value::of(false);
        left = std::move(right);
    }
    return value::of(true);
}

value interpreter::concatenate(const expression& e, scope& s) {
    builder out(cost_);
    for (const auto& o : e.operands) print(evaluate(*o, s), out);
    return out.finish();
}

value interpreter::make_dict_of(const expression& e, scope& s) {
    dict d;
    for (std::size_t i = 0; i < e.operands.size(); i += 2) {
        value key = evaluate(*e.operands[i], s);
        d.set(std::move(key), evaluate(*e.operands[i + 1], s), cost_);
    }
    return make_dict(std::move(d));
}

value interpreter::apply_filter(const expression& e, const value* block_input, scope& s) {
    value input = block_input != nullptr ? *block_input : evaluate(*e.operands[0], s);
    if (e.filter == nullptr) throw failure{"No filter named '" + e.name + "' found."};
    return e.filter(*this, input, evaluate_arguments(e.args, s));
}

value interpreter::apply_chain(const expression& e, const value& input, scope& s) {
    const auto level = cost_.frame();
    if (!e.operands[0]) return apply_filter(e, &input, s);
    const value inner = apply_chain(*e.operands[0], input, s);
    return apply_filter(e, &inner, s);
}

arguments interpreter::evaluate_arguments(const std::vector<argument>& args, scope& s) {
    arguments out;
    for (const argument& a : args) {
        value v = evaluate(*a.value, s);
        switch (a.kind) {
        case argument::how::positional:
            out.positional.push_back(std::move(v));
            break;
        case argument::how::named:
            out.named.emplace_back(a.name, std::move(v));
            break;
        case argument::how::star:
            for (value& item : iterate(v, cost_)) out.positional.push_back(std::move(item));
            break;
        case argument::how::double_star: {
            const dict* d = v.as_dict();
            if (d == nullptr) throw failure{"argument after ** must be a mapping"};
            for (const auto& [key, item] : d->items) {
                if (key.as_text() == nullptr) throw failure{"keywords must be strings"};
                out.named.emplace_back(key.as_text()->view(), item);
                out.names_from_user = out.names_from_user || key.as_text()->any_from_user();
            }
            break;
        }
        }
    }
    return out;
}

}  // namespace troupe::model::jinja
