// What a model's chat looks like: its template (or a built-in one), the habits of that template found out by probe
// renders at load, and messages brought into the form it accepts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json.hpp>

#include "core/requests.hpp"
#include "core/result.hpp"
#include "model/templates/chat_template.hpp"
#include "model/tools/call_format.hpp"

namespace troupe::model {

/// How messages must be bent before a template takes them. Found out at load; all false for most.
struct chat_habits {
    bool fold_system = false;    ///< refuses or drops a system message: its text goes in front of the next user turn
    bool merge_turns = false;    ///< wants strict alternation: neighbours of equal role become one
    bool content_parts = false;  ///< wants content as [{"type":"text","text":...}]
    bool arguments_as_text = false;  ///< wants tool-call arguments as JSON text, not as an object
    bool null_content = false;       ///< shows tool calls only of a message whose content is none
    bool tools_always = false;       ///< wants `tools` defined (as none) even without any
    bool operator==(const chat_habits&) const = default;
};

struct chat_options {
    bool add_generation_prompt = true;
    boost::json::array tools;  ///< empty: `tools` stays undefined
    /// Further variables (chat_template_kwargs, date_string, ...). They count as the server's own words, not the user's
    /// (no from_user mark), and cannot replace messages, tools, bos_token, eos_token or add_generation_prompt.
    boost::json::object variables;
};

class chat_format {
 public:
    using has_token = std::function<bool(std::string_view)>;

    /// `source`: the model's template; empty: ChatML if the vocabulary has <|im_start|>, Gemma's turns if it has
    /// <start_of_turn>, else "role: content" lines. model_unsupported if it does not parse or cannot render even one
    /// user message.
    static result<std::shared_ptr<const chat_format>> load(std::string source, std::string bos_token,
        std::string eos_token, const has_token& vocabulary, template_budget budget = {});

    /// Messages -> marked text. invalid_request with the template's own message where it refuses them.
    result<std::vector<text_part>> render(
        std::span<const chat_message> messages, const chat_options& options, std::int64_t now) const;

    const chat_habits& habits() const { return habits_; }
    /// "model", or the built-in format that stands in for a missing template: "chatml", "gemma", "plain".
    std::string_view origin() const { return origin_; }
    bool built_in() const { return origin_ != "model"; }
    /// How this model is told to write tool calls. A template that knows no tools gets them in a block of the system
    /// message, in hermes' style, and calls and results in the text of messages; unknown: it shows tools, but writes
    /// calls in a form this build does not read, so tools are refused.
    call_style calls() const { return calls_; }
    const std::string& source() const { return template_->source(); }

 private:
    chat_format() = default;
    result<boost::json::object> context(std::span<const chat_message> messages, const chat_options& options) const;
    void find_habits();
    void find_calls();
    result<std::string> probe(const chat_habits& habits, std::span<const chat_message> messages) const;

    std::shared_ptr<const chat_template> template_;
    std::string bos_token_, eos_token_;
    chat_habits habits_;
    std::string_view origin_ = "model";
    call_style calls_ = call_style::unknown;
    bool taught_ = false;   ///< the template knows no tools: the system message explains them
    bool spelled_ = false;  ///< it shows no calls either: they and their results are written out in the text
    bool knows_developer_ = false;  ///< the template has a role "developer"; else it is another name of system
};

/// The text of an OpenAI `content`: a string, null (empty), or an array of text parts (joined by line ends).
/// unsupported_parameter for other kinds of part.
result<std::string> flatten_content(const boost::json::value& content);

}  // namespace troupe::model
