// Arithmetic, item access and slicing with Python's results.
#pragma once

#include <string_view>

#include "model/templates/value.hpp"

namespace troupe::model::jinja {

value add(const value& a, const value& b, meter& m);
value subtract(const value& a, const value& b);
value multiply(const value& a, const value& b, meter& m);
value divide(const value& a, const value& b);
value floor_divide(const value& a, const value& b);
/// Also printf-style formatting, if a is a string.
value modulo(const value& a, const value& b, meter& m);
value power(const value& a, const value& b);
value negate(const value& a);

/// x.name: methods before items, undefined if neither.
value get_attribute(const value& v, std::string_view name, meter& m);
/// x[key]: items before methods.
value get_item(const value& v, const value& key, meter& m);
/// x[start:stop:step]; undefined or none bounds are open.
value get_slice(const value& v, const value& start, const value& stop, const value& step, meter& m);

}  // namespace troupe::model::jinja
