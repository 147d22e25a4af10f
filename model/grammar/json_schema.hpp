// JSON schema (draft 2020-12) -> GBNF: every text of the grammar is valid under the schema; not every valid text is in
// the grammar.
//
// What is made of it: properties in the order the schema lists them (optional ones may be left out), then further names
// only where additionalProperties allows them explicitly (or nothing is listed at all); little white space; integers
// without fraction or exponent, at most 18 digits; escapes of whole code points only. Formats date, time, date-time and
// uuid are asserted, others are descriptions.
//
// Refused with unsupported_parameter naming keyword and place: what is not known, and not, if/then/else,
// patternProperties, propertyNames, contains, uniqueItems, dependent*, unevaluated*, $dynamicRef, references out of the
// document, oneOf whose branches are not provably exclusive, patterns beyond model/grammar/pattern.hpp or together with
// a length, and combinations of these that no simple rule covers.
#pragma once

#include <string>
#include <string_view>

#include <boost/json.hpp>

#include "core/result.hpp"
#include "model/grammar/gbnf_text.hpp"

namespace troupe::model {

/// Text of a JSON schema as a document. invalid_request: no JSON, no object or boolean, larger than
/// limits::max_schema_bytes, deeper than limits::max_json_depth. `param` names the request field in errors.
result<boost::json::value> parse_schema(std::string_view text, const std::string& param);

/// Adds rules for a document's root schema to the book; gives the name of its rule. only_objects: other values are left
/// out.
result<std::string> add_schema(
    const boost::json::value& document, rule_book& rules, const std::string& param, bool only_objects = false);

/// The whole grammar of one schema, checked: invalid_request if no value satisfies it.
result<std::string> grammar_of_schema(std::string_view schema, const std::string& param);

}  // namespace troupe::model
