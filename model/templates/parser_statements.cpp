// Statements: text, {{ }} and the tags.
#include <algorithm>

#include "model/templates/parser_core.hpp"

namespace troupe::model::jinja {

bool parser::skip_op(std::string_view op) {
    if (!is_op(op)) return false;
    take();
    return true;
}

bool parser::skip_name(std::string_view name) {
    if (!is_name(name)) return false;
    take();
    return true;
}

void parser::unexpected(std::string_view wanted) const {
    const token& t = now();
    std::string got;
    switch (t.kind) {
    case token_kind::end:
        got = "end of template";
        break;
    case token_kind::block_end:
        got = "end of statement block";
        break;
    case token_kind::print_end:
        got = "end of print statement";
        break;
    default:
        got = t.text;
        break;
    }
    fail("Expected " + std::string(wanted) + ", got '" + got + "'");
}

void parser::expect_op(std::string_view op) {
    if (!skip_op(op)) unexpected("'" + std::string(op) + "'");
}

std::string parser::expect_name() {
    if (now().kind != token_kind::name) unexpected("a name");
    return take().text;
}

void parser::expect_block_end() {
    if (now().kind != token_kind::block_end) unexpected("end of statement block");
    take();
}

void parser::close(std::string_view end) {
    take();  // {%
    if (!skip_name(end)) unexpected("'" + std::string(end) + "'");
    expect_block_end();
}

block parser::whole_template() {
    block out = statements({});
    if (!unknown_.empty()) throw unknown_.front();
    return out;
}

block parser::statements(std::initializer_list<std::string_view> ends) {
    const auto level = deeper();
    block out;
    while (now().kind != token_kind::end) {
        if (now().kind == token_kind::data) {
            statement s;
            s.kind = stmt_kind::data;
            s.line = now().line;
            s.data = value::of(std::string_view(take().text));
            out.push_back(std::move(s));
        } else if (now().kind == token_kind::print_begin) {
            take();
            statement s;
            s.kind = stmt_kind::print;
            s.line = now().line;
            s.expr = tuple();
            if (now().kind != token_kind::print_end) unexpected("end of print statement");
            take();
            out.push_back(std::move(s));
        } else {
            const std::string& name = ahead().text;
            if (ahead().kind == token_kind::name && std::find(ends.begin(), ends.end(), name) != ends.end()) return out;
            tag(out);
        }
    }
    if (ends.size() > 0) fail("Unexpected end of template: '" + std::string(*(ends.end() - 1)) + "' is missing");
    return out;
}

void parser::tag(block& out) {
    take();  // {%
    if (now().kind != token_kind::name) unexpected("a tag name");
    const std::string name = now().text;
    const int line = now().line;
    take();
    if (name == "set") return set_statement(out);
    statement s;
    if (name == "if") {
        s = if_statement();
    } else if (name == "for") {
        s = for_statement();
    } else if (name == "macro") {
        s = macro_statement();
    } else if (name == "call") {
        s = call_statement();
    } else if (name == "filter") {
        s = filter_statement();
    } else if (name == "with") {
        s = with_statement();
    } else if (name == "generation") {
        expect_block_end();
        s = scoped_statement("endgeneration");
    } else if (name == "block") {
        expect_name();
        expect_block_end();
        s = scoped_statement("endblock");
    } else if (name == "break" || name == "continue") {
        if (loop_depth_ == 0) fail("'" + name + "' outside loop");
        s.kind = name == "break" ? stmt_kind::break_ : stmt_kind::continue_;
        expect_block_end();
    } else {
        fail("Encountered unknown tag '" + name + "'.");
    }
    s.line = line;
    out.push_back(std::move(s));
}

statement parser::if_statement() {
    statement s;
    s.kind = stmt_kind::if_;
    ++conditional_depth_;
    while (true) {
        expr_ptr condition = tuple();
        expect_block_end();
        block body = statements({"elif", "else", "endif"});
        s.branches.emplace_back(std::move(condition), std::move(body));
        take();  // {%
        if (skip_name("elif")) continue;
        if (skip_name("else")) {
            expect_block_end();
            s.otherwise = statements({"endif"});
            take();
        }
        if (!skip_name("endif")) unexpected("'endif'");
        expect_block_end();
        break;
    }
    --conditional_depth_;
    return s;
}

statement parser::for_statement() {
    statement s;
    s.kind = stmt_kind::for_;
    s.to = assignment_target(false);
    if (!skip_name("in")) unexpected("'in'");
    s.expr = tuple(true);
    if (skip_name("if")) s.condition = expression_();
    s.recursive = skip_name("recursive");
    expect_block_end();
    ++loop_depth_;
    s.body = statements({"else", "endfor"});
    --loop_depth_;
    if (ahead().text == "else") {
        take();
        take();
        expect_block_end();
        s.otherwise = statements({"endfor"});
    }
    close("endfor");
    return s;
}

target parser::one_target(bool allow_attribute) {
    if (skip_op("(")) {
        const auto level = deeper();
        target t = assignment_target(allow_attribute);
        expect_op(")");
        return t;
    }
    target t;
    t.name = expect_name();
    if (t.name == "true" || t.name == "false" || t.name == "none" || t.name == "True" || t.name == "False" ||
        t.name == "None") {
        fail("can't assign to '" + t.name + "'");
    }
    if (allow_attribute && skip_op(".")) t.attribute = expect_name();
    return t;
}

target parser::assignment_target(bool allow_attribute) {
    target first = one_target(allow_attribute);
    if (!is_op(",")) return first;
    target all;
    all.several.push_back(std::move(first));
    while (skip_op(",")) {
        if (now().kind != token_kind::name && !is_op("(")) break;
        all.several.push_back(one_target(allow_attribute));
    }
    return all;
}

void parser::set_statement(block& out) {
    statement s;
    s.line = now().line;
    s.to = assignment_target(true);
    if (skip_op("=")) {
        s.kind = stmt_kind::set;
        s.expr = tuple();
        expect_block_end();
    } else {
        s.kind = stmt_kind::set_block;
        if (is_op("|")) s.expr = filter_chain(nullptr, false);
        expect_block_end();
        s.body = statements({"endset"});
        close("endset");
    }
    out.push_back(std::move(s));
}

void parser::parameters(macro_definition& macro) {
    expect_op("(");
    while (!is_op(")")) {
        if (!macro.parameters.empty()) {
            expect_op(",");
            if (is_op(")")) break;
        }
        macro.parameters.push_back(expect_name());
        if (skip_op("=")) {
            macro.defaults.push_back(expression_());
        } else if (!macro.defaults.empty()) {
            fail("non-default argument follows default argument");
        }
    }
    expect_op(")");
}

statement parser::macro_statement() {
    statement s;
    s.kind = stmt_kind::macro;
    s.macro = std::make_unique<macro_definition>();
    s.macro->name = expect_name();
    parameters(*s.macro);
    expect_block_end();
    macro_definition* outer = std::exchange(macro_, s.macro.get());
    const int loops = std::exchange(loop_depth_, 0);  // no break out of a macro
    s.macro->body = statements({"endmacro"});
    loop_depth_ = loops;
    macro_ = outer;
    take();
    take();
    if (now().kind == token_kind::name) take();  // {% endmacro name %}
    expect_block_end();
    return s;
}

statement parser::call_statement() {
    statement s;
    s.kind = stmt_kind::call_block;
    s.macro = std::make_unique<macro_definition>();
    s.macro->name = "caller";
    if (is_op("(")) parameters(*s.macro);
    s.expr = expression_();
    if (s.expr->kind != expr_kind::call) fail("expected call");
    expect_block_end();
    const int loops = std::exchange(loop_depth_, 0);
    s.macro->body = statements({"endcall"});
    loop_depth_ = loops;
    close("endcall");
    return s;
}

statement parser::filter_statement() {
    statement s;
    s.kind = stmt_kind::filter_block;
    s.expr = filter_chain(nullptr, true);
    expect_block_end();
    s.body = statements({"endfilter"});
    close("endfilter");
    return s;
}

statement parser::with_statement() {
    statement s;
    s.kind = stmt_kind::with;
    while (now().kind != token_kind::block_end) {
        if (!s.assignments.empty()) expect_op(",");
        target to = assignment_target(false);
        expect_op("=");
        s.assignments.emplace_back(std::move(to), expression_());
    }
    expect_block_end();
    s.body = statements({"endwith"});
    close("endwith");
    return s;
}

statement parser::scoped_statement(std::string_view end) {
    statement s;
    s.kind = stmt_kind::scoped;
    s.body = statements({end});
    take();
    take();
    if (now().kind == token_kind::name) take();
    expect_block_end();
    return s;
}

block parse(std::string_view source, int depth) { return parser(tokenize(source), depth).whole_template(); }

}  // namespace troupe::model::jinja
