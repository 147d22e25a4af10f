// printf-style and brace formatting of strings, and strftime.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/templates/value.hpp"

namespace troupe::model::jinja {

/// pattern % values (a tuple, a dict for %(name)s, or one value).
value format_percent(const text& pattern, const value& values, meter& m);
/// pattern.format(...): {} {0} {name} with an optional :spec of fill, width, precision and type.
value format_braces(const text& pattern, const arguments& args, meter& m);
/// strftime in the C locale; `now` in Unix seconds, taken as UTC.
std::string format_time(std::string_view pattern, std::int64_t now);

}  // namespace troupe::model::jinja
