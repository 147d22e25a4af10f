// Statements: output, conditions, loops, assignments and macros.
#include "model/templates/interpreter.hpp"

#include <algorithm>
#include <utility>

#include "model/templates/operators.hpp"
#include "model/templates/print.hpp"

namespace troupe::model::jinja {

const value* scope::find(std::string_view name) const {
    for (const scope* s = this; s != nullptr; s = s->parent) {
        for (const auto& [key, v] : s->variables) {
            if (key == name) return &v;
        }
    }
    return nullptr;
}

void scope::set(std::string_view name, value v) {
    for (auto& [key, old] : variables) {
        if (key == name) {
            old = std::move(v);
            return;
        }
    }
    variables.emplace_back(name, std::move(v));
}

interpreter::~interpreter() {
    for (const auto& s : kept_) s->variables.clear();
    for (const auto& n : namespaces_) n->items.clear();
}

text interpreter::run(const block& program, std::vector<std::pair<std::string_view, value>> context) {
    const auto root = std::make_shared<scope>(nullptr);
    root->variables = std::move(context);
    builder out(cost_);
    execute(program, *root, out);
    return out.take();
}

void interpreter::keep(scope& s) {
    for (scope* at = &s; at != nullptr && !at->kept; at = at->parent) {
        at->kept = true;
        kept_.push_back(at->shared_from_this());
    }
}

value interpreter::make_namespace(name_space n) {
    cost_.allocate(sizeof(name_space) + n.items.size() * 64);
    namespaces_.push_back(std::make_shared<name_space>(std::move(n)));
    return namespaces_.back();
}

interpreter::flow interpreter::execute(const block& statements, scope& s, builder& out) {
    for (const statement& st : statements) {
        cost_.step();
        if (const flow f = execute(st, s, out); f != flow::normal) return f;
    }
    return flow::normal;
}

interpreter::flow interpreter::execute(const statement& st, scope& s, builder& out) {
    const auto level = cost_.frame();
    switch (st.kind) {
    case stmt_kind::data:
        out.append(*st.data.as_text());
        break;
    case stmt_kind::print:
        print(evaluate(*st.expr, s), out);
        break;
    case stmt_kind::if_:
        return execute_if(st, s, out);
    case stmt_kind::for_:
        execute_for(st, s, out);
        break;
    case stmt_kind::set:
        assign(st.to, evaluate(*st.expr, s), s);
        break;
    case stmt_kind::set_block: {
        const value v = captured(st.body, s);
        assign(st.to, st.expr ? apply_chain(*st.expr, v, s) : v, s);
        break;
    }
    case stmt_kind::macro:
        s.set(st.macro->name, make_macro(*st.macro, s));
        break;
    case stmt_kind::call_block:
        call_with_block(st, s, out);
        break;
    case stmt_kind::filter_block:
        print(apply_chain(*st.expr, captured(st.body, s), s), out);
        break;
    case stmt_kind::with:
        execute_with(st, s, out);
        break;
    case stmt_kind::scoped:
        return run_scoped(st.body, s, out);
    case stmt_kind::break_:
        return flow::break_;
    case stmt_kind::continue_:
        return flow::continue_;
    }
    return flow::normal;
}

interpreter::flow interpreter::execute_if(const statement& st, scope& s, builder& out) {
    for (const auto& [condition, body] : st.branches) {
        if (truthy(evaluate(*condition, s))) return execute(body, s, out);
    }
    return execute(st.otherwise, s, out);
}

interpreter::flow interpreter::run_scoped(const block& body, scope& s, builder& out) {
    const auto inner = std::make_shared<scope>(&s);
    return execute(body, *inner, out);
}

value interpreter::captured(const block& body, scope& s) {
    builder out(cost_);
    run_scoped(body, s, out);
    return out.finish();
}

void interpreter::execute_with(const statement& st, scope& s, builder& out) {
    const auto inner = std::make_shared<scope>(&s);
    for (const auto& [to, expr] : st.assignments) assign(to, evaluate(*expr, s), *inner);
    execute(st.body, *inner, out);
}

// -- loops --------------------------------------------------------------------------------

void interpreter::execute_for(const statement& st, scope& s, builder& out) {
    loop(st, iterate(evaluate(*st.expr, s), cost_), s, out, 1);
}

std::vector<value> interpreter::filtered(const statement& st, std::vector<value> items, scope& s) {
    std::vector<value> kept;
    const auto inner = std::make_shared<scope>(&s);
    for (value& item : items) {
        cost_.step();
        assign(st.to, item, *inner);
        if (truthy(evaluate(*st.condition, *inner))) kept.push_back(std::move(item));
    }
    return kept;
}

void interpreter::loop(const statement& st, std::vector<value> items, scope& s, builder& out, int depth) {
    if (st.condition) items = filtered(st, std::move(items), s);
    if (items.empty()) {
        run_scoped(st.otherwise, s, out);
        return;
    }
    if (st.recursive) keep(s);
    const auto state = std::make_shared<loop_state>();
    for (const value& v : items) state->items_depth = std::max(state->items_depth, depth_of(v));
    checked_depth(state->items_depth + 1);
    state->items = std::move(items);
    state->depth = depth;
    state->recursive = st.recursive ? &st : nullptr;
    state->outer = &s;
    auto inner = std::make_shared<scope>(&s);
    for (std::size_t i = 0; i < state->items.size(); ++i) {
        cost_.step();
        if (inner->kept) inner = std::make_shared<scope>(&s);  // a macro made in the last turn still reads it
        inner->variables.clear();
        state->index = i;
        inner->set("loop", state);
        assign(st.to, state->items[i], *inner);
        if (execute(st.body, *inner, out) == flow::break_) break;
    }
}

// -- assignment --------------------------------------------------------------------------------

void interpreter::assign(const target& to, const value& v, scope& s) {
    if (!to.several.empty()) {
        if (v.is_undefined()) fail_undefined(v);
        const auto items = iterate(v, cost_);
        if (items.size() != to.several.size()) {
            throw failure{"cannot unpack " + std::to_string(items.size()) + " values into " +
                          std::to_string(to.several.size()) + " names"};
        }
        for (std::size_t i = 0; i < items.size(); ++i) assign(to.several[i], items[i], s);
        return;
    }
    if (to.attribute.empty()) return s.set(to.name, v);
    const value* owner = s.find(to.name);
    name_space* n = owner == nullptr ? nullptr : owner->as_namespace();
    if (n == nullptr) throw failure{"cannot assign attribute on non-namespace object"};
    n->set(to.attribute, v);
}

// -- macros --------------------------------------------------------------------------------

value interpreter::make_macro(const macro_definition& macro, scope& s) {
    keep(s);
    auto c = std::make_shared<callable>();
    c->macro = &macro;
    c->closure = &s;
    c->name = macro.name;
    return std::shared_ptr<const callable>(std::move(c));
}

value interpreter::call(const value& function, const arguments& args) {
    const auto level = cost_.frame();
    cost_.step();
    if (const callable* c = function.as_callable()) {
        return c->function != nullptr ? c->function(*this, c->self, args) : call_macro(*c, args);
    }
    if (const loop_state* l = function.as_loop(); l != nullptr && l->recursive != nullptr) {
        const auto depth = cost_.call();
        const auto bound = bind(args, "loop", {"iterable"});
        if (bound[0] == nullptr) throw failure{"loop() needs something to iterate"};
        builder out(cost_);
        loop(*l->recursive, iterate(*bound[0], cost_), *l->outer, out, l->depth + 1);
        return out.finish();
    }
    if (function.is_undefined()) fail_undefined(function);
    throw failure{"'" + std::string(type_name(function)) + "' object is not callable"};
}

void interpreter::bind_parameters(const macro_definition& macro, const arguments& args, scope& s) {
    const std::size_t n = macro.parameters.size(), first_default = n - macro.defaults.size();
    std::vector<value> extra;
    for (std::size_t i = n; i < args.positional.size(); ++i) extra.push_back(args.positional[i]);
    if (!extra.empty() && !macro.uses_varargs) {
        throw failure{"macro '" + macro.name + "' takes not more than " + std::to_string(n) + " argument(s)"};
    }
    dict others;
    for (const auto& [name, v] : args.named) {
        if (std::find(macro.parameters.begin(), macro.parameters.end(), name) != macro.parameters.end()) continue;
        if (name == "caller") {
            s.set("caller", v);
        } else if (macro.uses_kwargs) {
            others.set(value::of(std::string_view(name), args.names_from_user), v, cost_);
        } else {
            throw failure{"macro '" + macro.name + "' takes no keyword argument '" + name + "'"};
        }
    }
    for (std::size_t i = 0; i < n; ++i) {
        const std::string& parameter = macro.parameters[i];
        const auto named = std::find_if(
            args.named.begin(), args.named.end(), [&](const auto& item) { return item.first == parameter; });
        if (i < args.positional.size()) {
            s.set(parameter, args.positional[i]);
        } else if (named != args.named.end()) {
            s.set(parameter, named->second);
        } else if (i >= first_default) {
            s.set(parameter, evaluate(*macro.defaults[i - first_default], s));
        } else {
            s.set(parameter,
                undefined{std::make_shared<const std::string>("parameter '" + parameter + "' was not provided")});
        }
    }
    if (macro.uses_varargs) s.set("varargs", make_sequence(std::move(extra), cost_, form::tuple));
    if (macro.uses_kwargs) s.set("kwargs", make_dict(std::move(others)));
}

value interpreter::call_macro(const callable& macro, const arguments& args) {
    const auto depth = cost_.call();
    const auto inner = std::make_shared<scope>(macro.closure);
    bind_parameters(*macro.macro, args, *inner);
    builder out(cost_);
    execute(macro.macro->body, *inner, out);
    return out.finish();
}

void interpreter::call_with_block(const statement& st, scope& s, builder& out) {
    arguments args = evaluate_arguments(st.expr->args, s);
    args.named.emplace_back("caller", make_macro(*st.macro, s));
    print(call(evaluate(*st.expr->operands[0], s), args), out);
}

}  // namespace troupe::model::jinja
