// What a parsed grammar must satisfy before it is built: every name defined, a root, no left recursion, something to
// match.
#pragma once

#include "core/result.hpp"
#include "model/grammar/gbnf.hpp"

namespace troupe::model {

/// Fills nullable and productive of every expression and finds the root. invalid_request as parse_gbnf says.
result<void> check_grammar(grammar& g);

}  // namespace troupe::model
