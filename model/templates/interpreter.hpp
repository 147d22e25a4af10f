// Runs a parsed template: scopes, statements, expressions. One object a render; nothing in it outlives that.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "model/templates/ast.hpp"
#include "model/templates/builder.hpp"

namespace troupe::model::jinja {

/// Variables of a loop turn, a macro call or a with block. Names point into the syntax tree or the context.
struct scope : std::enable_shared_from_this<scope> {
    explicit scope(scope* up) : parent(up) {}
    const value* find(std::string_view name) const;
    void set(std::string_view name, value v);

    scope* parent;
    std::vector<std::pair<std::string_view, value>> variables;
    bool kept = false;
};

class interpreter {
 public:
    /// `now`: Unix seconds for strftime_now.
    interpreter(meter& cost, std::int64_t now) : cost_(cost), now_(now) {}
    /// Macros point to scopes and scopes hold macros, namespaces may hold themselves: cut those circles.
    ~interpreter();
    interpreter(const interpreter&) = delete;
    interpreter& operator=(const interpreter&) = delete;

    text run(const block& program, std::vector<std::pair<std::string_view, value>> context);

    meter& cost() { return cost_; }
    std::int64_t now() const { return now_; }
    value call(const value& function, const arguments& args);
    value make_namespace(name_space n);

 private:
    enum class flow : std::uint8_t { normal, break_, continue_ };

    // -- statements (interpreter.cpp)
    flow execute(const block& statements, scope& s, builder& out);
    flow execute(const statement& st, scope& s, builder& out);
    flow execute_if(const statement& st, scope& s, builder& out);
    flow run_scoped(const block& body, scope& s, builder& out);
    void execute_for(const statement& st, scope& s, builder& out);
    void loop(const statement& st, std::vector<value> items, scope& s, builder& out, int depth);
    std::vector<value> filtered(const statement& st, std::vector<value> items, scope& s);
    value captured(const block& body, scope& s);
    void execute_with(const statement& st, scope& s, builder& out);
    void call_with_block(const statement& st, scope& s, builder& out);
    void assign(const target& to, const value& v, scope& s);
    value make_macro(const macro_definition& macro, scope& s);
    value call_macro(const callable& macro, const arguments& args);
    void bind_parameters(const macro_definition& macro, const arguments& args, scope& s);
    /// Keeps a scope and those around it until the render ends.
    void keep(scope& s);

    // -- expressions (expressions.cpp)
    value evaluate(const expression& e, scope& s);
    value evaluate_node(const expression& e, scope& s);
    value binary(const expression& e, scope& s);
    value look_up(const expression& e, scope& s);
    value compare_chain(const expression& e, scope& s);
    value concatenate(const expression& e, scope& s);
    value make_dict_of(const expression& e, scope& s);
    value apply_filter(const expression& e, const value* block_input, scope& s);
    /// A chain of filters whose innermost input is `input`.
    value apply_chain(const expression& e, const value& input, scope& s);
    arguments evaluate_arguments(const std::vector<argument>& args, scope& s);

    meter& cost_;
    std::int64_t now_;
    std::vector<std::shared_ptr<scope>> kept_;
    std::vector<std::shared_ptr<name_space>> namespaces_;
};

}  // namespace troupe::model::jinja
