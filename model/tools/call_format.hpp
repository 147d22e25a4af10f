// How a model writes tool calls into its text, and the grammar that keeps it to that.
//
// hermes (Qwen, Hermes, ChatML and whatever is taught it by a system block):
//     <tool_call>\n{"name": "f", "arguments": {...}}\n</tool_call>, several of them one after the other
// llama3: the whole answer is {"name": "f", "parameters": {...}}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <boost/json.hpp>

#include "core/result.hpp"

namespace troupe::model {

enum class call_style : std::uint8_t { unknown, hermes, llama3 };

/// The exact text around a call's name and arguments in a style: begin NAME middle ARGUMENTS end.
struct call_text {
    std::string_view trigger;  ///< what a call begins with
    std::string_view begin;    ///< trigger included
    std::string_view middle, end;
};
const call_text& text_of(call_style style);

struct tool {
    std::string name;
    boost::json::value parameters;  ///< schema of the arguments; null: there are none
};

/// OpenAI's list of tools. invalid_request (param "tools") for what is none: type other than function, names that are
/// not 1..64 of [A-Za-z0-9_.-] or come twice, too many.
result<std::vector<tool>> read_tools(const boost::json::array& list);

/// The grammar of an answer. `choice`: "auto" (any text; a call in it must be a valid one), "required", or the name of
/// the one tool that must be called. parallel: more than one call may be made (never in llama3's style). Errors: as
/// add_schema, param "tools"; invalid_request (param "tool_choice") for a name that is not in the list.
result<std::string> grammar_of_tools(
    const std::vector<tool>& tools, call_style style, const std::string& choice, bool parallel);

}  // namespace troupe::model
