// Tokens -> syntax tree (Jinja 3.1's grammar with the loop-control tags and Hugging Face's generation tag).
#pragma once

#include <memory>
#include <string_view>

#include "model/templates/ast.hpp"
#include "model/templates/lexer.hpp"

namespace troupe::model::jinja {

/// Throws failure (with line). `depth` bounds nesting of blocks and brackets, 16 * depth the height of any expression.
block parse(std::string_view source, int depth);

}  // namespace troupe::model::jinja
