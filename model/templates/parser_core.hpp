// The parser's two halves, expressions and statements, over one token cursor. Private to the parser's sources.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/templates/parser.hpp"

namespace troupe::model::jinja {

class parser {
 public:
    parser(std::vector<token> tokens, int depth) : tokens_(std::move(tokens)), depth_(depth), max_height_(16 * depth) {}
    block whole_template();

 private:
    // -- cursor
    const token& now() const { return tokens_[at_]; }
    const token& ahead() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
    token take() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }
    bool is_op(std::string_view op) const { return now().kind == token_kind::op && now().text == op; }
    bool is_name(std::string_view name) const { return now().kind == token_kind::name && now().text == name; }
    bool skip_op(std::string_view op);
    bool skip_name(std::string_view name);
    void expect_op(std::string_view op);
    std::string expect_name();
    void expect_block_end();
    [[noreturn]] void fail(std::string message) const { throw failure{std::move(message), now().line}; }
    [[noreturn]] void unexpected(std::string_view wanted) const;
    void note_unknown(std::string message) {
        if (conditional_depth_ == 0) unknown_.push_back({std::move(message), now().line});
    }
    meter::level deeper() { return meter::level(depth_); }

    // -- expressions (parser_expressions.cpp)
    expr_ptr make(expr_kind kind, std::vector<expr_ptr> operands = {}) const;
    void settle(expression& e) const;
    expr_ptr expression_() { return conditional(); }
    expr_ptr conditional();
    expr_ptr logical_or();
    expr_ptr logical_and();
    expr_ptr logical_not();
    expr_ptr comparison();
    expr_ptr sum();
    expr_ptr concat();
    expr_ptr product();
    expr_ptr power();
    expr_ptr unary(bool with_filter);
    expr_ptr primary();
    expr_ptr number();
    expr_ptr list();
    expr_ptr dict();
    expr_ptr postfix(expr_ptr e);
    expr_ptr filters_and_tests(expr_ptr e);
    expr_ptr filter_chain(expr_ptr e, bool at_name);
    expr_ptr test(expr_ptr e);
    expr_ptr subscript(expr_ptr e);
    expr_ptr subscript_index();
    /// One expression, or a tuple if commas follow. `plain`: no inline if at its top (for x in ...).
    expr_ptr tuple(bool plain = false, bool parenthesized = false);
    bool tuple_ends() const;
    std::vector<argument> call_arguments();

    // -- statements (parser_statements.cpp)
    block statements(std::initializer_list<std::string_view> ends);
    void tag(block& out);
    statement if_statement();
    statement for_statement();
    void set_statement(block& out);
    statement macro_statement();
    statement call_statement();
    statement filter_statement();
    statement with_statement();
    statement scoped_statement(std::string_view end);
    void parameters(macro_definition& macro);
    target assignment_target(bool allow_attribute);
    target one_target(bool allow_attribute);
    void close(std::string_view end);

    std::vector<token> tokens_;
    std::size_t at_ = 0;
    int depth_;
    int max_height_;
    int conditional_depth_ = 0;     ///< inside an if an unknown filter fails when it is reached, elsewhere at once
    std::vector<failure> unknown_;  ///< filters and tests this build has not, outside of conditions
    int loop_depth_ = 0;
    macro_definition* macro_ = nullptr;  ///< being parsed
};

}  // namespace troupe::model::jinja
