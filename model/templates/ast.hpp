// The parsed template: expressions and statements, immutable after parsing and shared by every render.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/templates/value.hpp"

namespace troupe::model::jinja {

enum class expr_kind : std::uint8_t {
    constant,
    name,
    list,
    tuple,
    dict,
    attribute,
    subscript,
    slice,
    call,
    filter,
    test,
    logical_not,
    negate,
    plus,
    add,
    subtract,
    multiply,
    divide,
    floor_divide,
    modulo,
    power,
    concat,
    compare,
    logical_and,
    logical_or,
    conditional
};

enum class compare_op : std::uint8_t { eq, ne, lt, le, gt, ge, in, not_in };

struct expression;
using expr_ptr = std::unique_ptr<expression>;

struct argument {
    enum class how : std::uint8_t { positional, named, star, double_star };
    how kind = how::positional;
    std::string name;
    expr_ptr value;
};

struct expression {
    expr_kind kind = expr_kind::constant;
    int line = 0;
    int height = 1;    ///< of the tree below; bounded by the parser, so recursion over it is too
    std::string name;  ///< variable, attribute, filter or test
    value constant;
    /// Operands in order; dict: key, value, ...; conditional: condition, then, else (may be null); slice: start, stop,
    /// step (each may be null); filter: the input (null in a filter block).
    std::vector<expr_ptr> operands;
    std::vector<compare_op> comparisons;  ///< between operands i and i + 1
    std::vector<argument> args;           ///< call, filter, test
    native filter = nullptr;              ///< null: unknown, fails when reached
    native_test test = nullptr;
};

enum class stmt_kind : std::uint8_t {
    data,
    print,
    if_,
    for_,
    set,
    set_block,
    macro,
    call_block,
    filter_block,
    with,
    scoped,
    break_,
    continue_
};

struct statement;
using block = std::vector<statement>;

/// Where an assignment goes: a name, an attribute of a namespace, or several of them.
struct target {
    std::string name;
    std::string attribute;  ///< not empty: of the namespace `name`
    std::vector<target> several;
};

struct macro_definition {
    std::string name;
    std::vector<std::string> parameters;
    std::vector<expr_ptr> defaults;  ///< of the last parameters
    block body;
    bool uses_varargs = false, uses_kwargs = false;  ///< else too many arguments fail
};

struct statement {
    stmt_kind kind = stmt_kind::data;
    int line = 0;
    value data;
    expr_ptr expr;       ///< print, set, set_block (filter chain), call_block (call), filter_block
    expr_ptr condition;  ///< for: its filter
    target to;           ///< for, set
    bool recursive = false;
    std::vector<std::pair<expr_ptr, block>> branches;      ///< if, elif
    std::vector<std::pair<target, expr_ptr>> assignments;  ///< with
    block body;                                            ///< for, set_block, filter_block, with, scoped
    block otherwise;                                       ///< else of if and for
    std::unique_ptr<macro_definition> macro;               ///< macro, call_block
};

}  // namespace troupe::model::jinja
