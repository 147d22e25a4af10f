// What a request says about the form of its answer -> a grammar, or the error that tells its author what is wrong.
// Plain functions for the tokenizer actor.
#pragma once

#include <string>

#include <boost/json.hpp>

#include "actors/messages.hpp"
#include "core/result.hpp"

namespace troupe::actors {

/// The GBNF of a request's grammar or JSON schema, ready for the executor. Errors name c.field.
result<std::string> grammar_for(const constrain_output& c);

/// Grammar and names for the tools of a chat (r.tools is not empty). unsupported_parameter (param "tools") if the model
/// writes calls in a form this build does not know.
result<call_rules> rules_for_tools(const render_chat& r, model::call_style style);

/// The list of tools. invalid_request (param "tools").
result<boost::json::array> parse_tools(const std::string& tools);

}  // namespace troupe::actors
