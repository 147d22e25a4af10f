// Tells tool calls from content in text that arrives in pieces. What merely looks like a call stays content; nothing is
// lost.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/tools/call_format.hpp"

namespace troupe::model {

/// content: text. name: a call begins. arguments: a fragment of the JSON text of the call's arguments.
struct call_piece {
    enum class kind : std::uint8_t { content, name, arguments };
    kind what{};
    std::string text;
    int index = 0;  ///< of the call
    bool operator==(const call_piece&) const = default;
};

class call_parser {
 public:
    call_parser(call_style style, std::vector<std::string> names);

    /// What is now certain.
    std::vector<call_piece> push(std::string_view text);
    /// No more text comes.
    std::vector<call_piece> finish();
    /// Calls that are complete.
    int n_calls() const { return complete_; }

 private:
    enum class phase { content, header, arguments, tail, only_content };
    bool step();
    bool content();
    bool header();
    bool arguments();
    bool tail();
    void emit(call_piece::kind what, std::string_view text);

    call_style style_;
    call_text text_;
    std::vector<std::string> heads_, names_;  ///< begin + name + middle of each tool
    phase phase_;
    std::string buffer_;
    std::vector<call_piece> out_;
    int index_ = 0, complete_ = 0;
    int depth_ = 0;  ///< of the arguments' JSON
    bool in_string_ = false, escaped_ = false;
    std::size_t between_ = 0;  ///< 1 directly after a call: a line end before the next one is no content
};

}  // namespace troupe::model
