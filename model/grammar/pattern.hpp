// Regular expressions of JSON Schema's `pattern` -> GBNF for the text between the quotes of a JSON string.
#pragma once

#include <string>
#include <string_view>

#include "core/result.hpp"
#include "model/grammar/gbnf_text.hpp"

namespace troupe::model {

/// Strings that match `pattern` as both ECMA-262 and Python's re read it: literals, classes, groups, alternatives,
/// repetitions (lazy ones too), \d \w \s . and their opposites among ASCII, and anchors at the ends of the pattern's
/// alternatives; without ^ or $ any text may stand there. The error's message says what else is not supported
/// (look-around, back-references, \b, \p, flags, possessive repetition).
result<std::string> grammar_of_pattern(std::string_view pattern, rule_book& rules);

}  // namespace troupe::model
