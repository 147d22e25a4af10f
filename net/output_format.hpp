// The fields that say what an answer must look like: response_format, grammar, json_schema and their other names;
// tools.
#pragma once

#include "core/requests.hpp"
#include "core/result.hpp"
#include "net/json_in.hpp"

namespace troupe::net {

/// response_format (text, json_object, json_schema), llama-server's grammar and json_schema, vLLM's guided_json and
/// structured_outputs{json, grammar, json_object}: at most one of them. Whether a schema or grammar can be used is
/// found out by the engine.
result<void> read_output_format(const json_object& o, generation_params& p);

/// tools, tool_choice (auto, none, required, a function's name), parallel_tool_calls. With tool_choice none the tools
/// are left out.
result<void> read_tools(const json_object& o, completion_request& r);

}  // namespace troupe::net
