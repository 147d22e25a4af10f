// Expressions: one function a precedence level, lowest first.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "model/templates/builtins.hpp"
#include "model/templates/parser_core.hpp"

namespace troupe::model::jinja {

expr_ptr parser::make(expr_kind kind, std::vector<expr_ptr> operands) const {
    auto e = std::make_unique<expression>();
    e->kind = kind;
    e->line = now().line;
    e->operands = std::move(operands);
    settle(*e);
    return e;
}

void parser::settle(expression& e) const {
    int below = 0;
    for (const auto& o : e.operands) below = std::max(below, o ? o->height : 0);
    for (const auto& a : e.args) below = std::max(below, a.value->height);
    e.height = below + 1;
    if (e.height > max_height_) fail("expression too long");
}

namespace {

template <class... E> std::vector<expr_ptr> operands(E... e) {
    std::vector<expr_ptr> out;
    (out.push_back(std::move(e)), ...);
    return out;
}

}  // namespace

expr_ptr parser::conditional() {
    const auto level = deeper();
    const std::size_t known = unknown_.size();
    expr_ptr e = logical_or();
    while (skip_name("if")) {
        unknown_.resize(known);  // what is conditional fails only when it is reached
        ++conditional_depth_;
        expr_ptr condition = logical_or();
        expr_ptr otherwise;
        if (skip_name("else")) otherwise = conditional();
        --conditional_depth_;
        e = make(expr_kind::conditional, operands(std::move(condition), std::move(e), std::move(otherwise)));
    }
    return e;
}

expr_ptr parser::logical_or() {
    expr_ptr e = logical_and();
    while (skip_name("or")) e = make(expr_kind::logical_or, operands(std::move(e), logical_and()));
    return e;
}

expr_ptr parser::logical_and() {
    expr_ptr e = logical_not();
    while (skip_name("and")) e = make(expr_kind::logical_and, operands(std::move(e), logical_not()));
    return e;
}

expr_ptr parser::logical_not() {
    if (!skip_name("not")) return comparison();
    const auto level = deeper();
    return make(expr_kind::logical_not, operands(logical_not()));
}

expr_ptr parser::comparison() {
    static constexpr std::pair<std::string_view, compare_op> table[] = {{"==", compare_op::eq}, {"!=", compare_op::ne},
        {"<", compare_op::lt}, {"<=", compare_op::le}, {">", compare_op::gt}, {">=", compare_op::ge}};
    std::vector<expr_ptr> sides = operands(sum());
    std::vector<compare_op> ops;
    while (true) {
        const std::size_t before = ops.size();
        for (const auto& [text, op] : table) {
            if (!is_op(text)) continue;
            take();
            ops.push_back(op);
            break;
        }
        if (ops.size() == before && is_name("in")) {
            take();
            ops.push_back(compare_op::in);
        } else if (ops.size() == before && is_name("not") && ahead().kind == token_kind::name && ahead().text == "in") {
            take();
            take();
            ops.push_back(compare_op::not_in);
        }
        if (ops.size() == before) break;
        sides.push_back(sum());
    }
    if (ops.empty()) return std::move(sides[0]);
    expr_ptr e = make(expr_kind::compare, std::move(sides));
    e->comparisons = std::move(ops);
    return e;
}

expr_ptr parser::sum() {
    expr_ptr e = concat();
    while (is_op("+") || is_op("-")) {
        const auto kind = take().text == "+" ? expr_kind::add : expr_kind::subtract;
        e = make(kind, operands(std::move(e), concat()));
    }
    return e;
}

expr_ptr parser::concat() {
    std::vector<expr_ptr> pieces = operands(product());
    while (skip_op("~")) pieces.push_back(product());
    return pieces.size() == 1 ? std::move(pieces[0]) : make(expr_kind::concat, std::move(pieces));
}

expr_ptr parser::product() {
    expr_ptr e = power();
    while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
        const std::string op = take().text;
        const auto kind = op == "*"   ? expr_kind::multiply
                          : op == "/" ? expr_kind::divide
                          : op == "%" ? expr_kind::modulo
                                      : expr_kind::floor_divide;
        e = make(kind, operands(std::move(e), power()));
    }
    return e;
}

expr_ptr parser::power() {
    expr_ptr e = unary(true);
    while (skip_op("**")) e = make(expr_kind::power, operands(std::move(e), unary(true)));
    return e;
}

expr_ptr parser::unary(bool with_filter) {
    expr_ptr e;
    if (is_op("-") || is_op("+")) {
        const auto level = deeper();
        const auto kind = take().text == "-" ? expr_kind::negate : expr_kind::plus;
        e = make(kind, operands(unary(false)));
    } else {
        e = primary();
    }
    e = postfix(std::move(e));
    return with_filter ? filters_and_tests(std::move(e)) : std::move(e);
}

expr_ptr parser::primary() {
    const token& t = now();
    if (t.kind == token_kind::integer || t.kind == token_kind::real) return number();
    if (t.kind == token_kind::string) {
        std::string joined;
        while (now().kind == token_kind::string) joined += take().text;
        expr_ptr e = make(expr_kind::constant);
        e->constant = value::of(std::string_view(joined));
        return e;
    }
    if (t.kind == token_kind::name) {
        const std::string name = take().text;
        expr_ptr e = make(expr_kind::constant);
        if (name == "true" || name == "True" || name == "false" || name == "False") {
            e->constant = value::of(name == "true" || name == "True");
        } else if (name == "none" || name == "None") {
            e->constant = value::none();
        } else {
            e->kind = expr_kind::name;
            e->name = name;
            if (macro_ != nullptr && name == "varargs") macro_->uses_varargs = true;
            if (macro_ != nullptr && name == "kwargs") macro_->uses_kwargs = true;
        }
        return e;
    }
    if (skip_op("(")) {
        const auto level = deeper();
        expr_ptr e = tuple(false, true);
        expect_op(")");
        return e;
    }
    if (is_op("[")) return list();
    if (is_op("{")) return dict();
    unexpected("an expression");
}

expr_ptr parser::number() {
    const token t = take();
    expr_ptr e = make(expr_kind::constant);
    if (t.kind == token_kind::real) {
        double d = 0;
        const auto [end, error] = std::from_chars(t.text.data(), t.text.data() + t.text.size(), d);
        if (error == std::errc::result_out_of_range) d = t.text.find("e-") == std::string::npos ? HUGE_VAL : 0;
        e->constant = value::of(d);
        return e;
    }
    const char prefix = t.text.size() > 2 ? static_cast<char>(t.text[1] | 0x20) : ' ';
    const int base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
    integer n = 0;
    for (std::size_t i = base == 10 ? 0 : 2; i < t.text.size(); ++i) {
        const char c = t.text[i];
        const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
        if (__builtin_mul_overflow(n, static_cast<integer>(base), &n) || __builtin_add_overflow(n, digit, &n)) {
            fail("number too large");
        }
    }
    e->constant = value::of(n);
    return e;
}

expr_ptr parser::list() {
    const auto level = deeper();
    expect_op("[");
    std::vector<expr_ptr> items;
    while (!is_op("]")) {
        if (!items.empty()) {
            expect_op(",");
            if (is_op("]")) break;
        }
        items.push_back(expression_());
    }
    expect_op("]");
    return make(expr_kind::list, std::move(items));
}

expr_ptr parser::dict() {
    const auto level = deeper();
    expect_op("{");
    std::vector<expr_ptr> items;
    while (!is_op("}")) {
        if (!items.empty()) {
            expect_op(",");
            if (is_op("}")) break;
        }
        items.push_back(expression_());
        expect_op(":");
        items.push_back(expression_());
    }
    expect_op("}");
    return make(expr_kind::dict, std::move(items));
}

bool parser::tuple_ends() const {
    const auto kind = now().kind;
    return kind == token_kind::print_end || kind == token_kind::block_end || is_op(")") || is_op("=") ||
           is_name("recursive") || is_op("]");
}

expr_ptr parser::tuple(bool plain, bool parenthesized) {
    const auto item = [&] { return plain ? logical_or() : expression_(); };
    if (tuple_ends()) {
        if (parenthesized) return make(expr_kind::tuple);
        unexpected("an expression");
    }
    std::vector<expr_ptr> items = operands(item());
    bool is_tuple = false;
    while (skip_op(",")) {
        is_tuple = true;
        if (tuple_ends()) break;
        items.push_back(item());
    }
    return is_tuple ? make(expr_kind::tuple, std::move(items)) : std::move(items[0]);
}

expr_ptr parser::postfix(expr_ptr e) {
    while (true) {
        if (skip_op(".")) {
            const token t = take();
            if (t.kind == token_kind::integer) {
                expr_ptr index = make(expr_kind::constant);
                index->constant = value::of(static_cast<integer>(std::atoll(t.text.c_str())));
                e = make(expr_kind::subscript, operands(std::move(e), std::move(index)));
            } else if (t.kind == token_kind::name) {
                e = make(expr_kind::attribute, operands(std::move(e)));
                e->name = t.text;
            } else {
                fail("expected name or number after '.'");
            }
        } else if (is_op("[")) {
            e = subscript(std::move(e));
        } else if (is_op("(")) {
            e = make(expr_kind::call, operands(std::move(e)));
            e->args = call_arguments();
            settle(*e);
        } else {
            return e;
        }
    }
}

expr_ptr parser::subscript_index() {
    if (!is_op(":")) {
        expr_ptr e = expression_();
        if (!is_op(":")) return e;
        std::vector<expr_ptr> bounds = operands(std::move(e));
        bounds.resize(3);
        take();
        if (!is_op("]") && !is_op(",") && !is_op(":")) bounds[1] = expression_();
        if (skip_op(":") && !is_op("]") && !is_op(",")) bounds[2] = expression_();
        return make(expr_kind::slice, std::move(bounds));
    }
    take();
    std::vector<expr_ptr> bounds(3);
    if (!is_op("]") && !is_op(",") && !is_op(":")) bounds[1] = expression_();
    if (skip_op(":") && !is_op("]") && !is_op(",")) bounds[2] = expression_();
    return make(expr_kind::slice, std::move(bounds));
}

expr_ptr parser::subscript(expr_ptr e) {
    const auto level = deeper();
    expect_op("[");
    std::vector<expr_ptr> indices = operands(subscript_index());
    while (skip_op(",")) indices.push_back(subscript_index());
    expect_op("]");
    expr_ptr index = indices.size() == 1 ? std::move(indices[0]) : make(expr_kind::tuple, std::move(indices));
    return make(expr_kind::subscript, operands(std::move(e), std::move(index)));
}

std::vector<argument> parser::call_arguments() {
    const auto level = deeper();
    expect_op("(");
    std::vector<argument> args;
    while (!is_op(")")) {
        if (!args.empty()) {
            expect_op(",");
            if (is_op(")")) break;
        }
        argument a;
        if (skip_op("*")) {
            a.kind = argument::how::star;
        } else if (skip_op("**")) {
            a.kind = argument::how::double_star;
        } else if (now().kind == token_kind::name && ahead().kind == token_kind::op && ahead().text == "=") {
            a.kind = argument::how::named;
            a.name = take().text;
            take();
        } else if (!args.empty() && args.back().kind != argument::how::positional) {
            fail("invalid syntax for function call expression");
        }
        a.value = expression_();
        args.push_back(std::move(a));
    }
    expect_op(")");
    return args;
}

expr_ptr parser::filters_and_tests(expr_ptr e) {
    while (true) {
        if (is_op("|")) {
            e = filter_chain(std::move(e), false);
        } else if (is_name("is")) {
            e = test(std::move(e));
        } else if (is_op("(")) {
            e = postfix(std::move(e));
        } else {
            return e;
        }
    }
}

expr_ptr parser::filter_chain(expr_ptr e, bool at_name) {
    while (at_name || skip_op("|")) {
        at_name = false;
        std::string name = expect_name();
        while (skip_op(".")) name += "." + expect_name();
        e = make(expr_kind::filter, operands(std::move(e)));
        e->name = name;
        e->filter = find_filter(name);
        if (e->filter == nullptr) note_unknown("No filter named '" + name + "'.");
        if (is_op("(")) e->args = call_arguments();
        settle(*e);
    }
    return e;
}

expr_ptr parser::test(expr_ptr e) {
    take();  // is
    const bool negated = skip_name("not");
    std::string name = expect_name();
    while (skip_op(".")) name += "." + expect_name();
    e = make(expr_kind::test, operands(std::move(e)));
    e->name = name;
    e->test = find_test(name);
    if (e->test == nullptr) note_unknown("No test named '" + name + "'.");
    const auto kind = now().kind;
    if (is_op("(")) {
        e->args = call_arguments();
    } else if ((kind == token_kind::name && !is_name("else") && !is_name("or") && !is_name("and") && !is_name("if") &&
                   !is_name("in") && !is_name("not")) ||
               kind == token_kind::string || kind == token_kind::integer || kind == token_kind::real || is_op("[") ||
               is_op("{")) {
        if (is_name("is")) fail("You cannot chain multiple tests with is");
        argument a;
        a.value = postfix(primary());
        e->args.push_back(std::move(a));
    }
    settle(*e);
    return negated ? make(expr_kind::logical_not, operands(std::move(e))) : std::move(e);
}

}  // namespace troupe::model::jinja
