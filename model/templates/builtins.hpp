// The filters, tests, methods and global functions a template may name.
#pragma once

#include <string_view>

#include "model/templates/value.hpp"

namespace troupe::model::jinja {

/// Null if there is none of that name.
native find_filter(std::string_view name);
native_test find_test(std::string_view name);
native find_global(std::string_view name);
/// The method of a value's type, null if it has none. Methods that would change a value are none (sandbox).
native find_method(const value& self, std::string_view name);
/// Would the method change its value? (append, pop, update, ...)
bool is_unsafe_method(const value& self, std::string_view name);

// Tables by topic, consulted by the functions above.
native find_text_filter(std::string_view name);
native find_list_filter(std::string_view name);
native find_string_method(std::string_view name);

}  // namespace troupe::model::jinja
