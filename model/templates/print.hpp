// How values become text: Python's str and repr, and json.dumps.
#pragma once

#include <optional>
#include <string>

#include "model/templates/builder.hpp"
#include "model/templates/value.hpp"

namespace troupe::model::jinja {

/// Python's repr of a float: shortest digits that read back the same.
std::string print_double(double d);
std::string print_integer(integer i);

/// Appends str(v); undefined prints as nothing.
void print(const value& v, builder& out);
/// Appends repr(v).
void print_repr(const value& v, builder& out);
/// str(v) as a value; a string is returned as it is.
value to_string(const value& v, meter& m);

struct json_style {
    std::optional<std::string> indent;  ///< one level of it; absent: one line
    std::string item_separator = ", ";
    std::string key_separator = ": ";
    bool ascii = false;
    bool sort_keys = false;
};
/// Appends json.dumps(v). Fails for what JSON cannot hold (undefined, generators, functions).
void print_json(const value& v, const json_style& style, builder& out, int level = 0);

}  // namespace troupe::model::jinja
