// Messages -> template context, with the bending each template needs.
#include "model/templates/chat_context.hpp"

#include <utility>

namespace troupe::model {

namespace {

namespace json = boost::json;

constexpr std::string_view chatml = R"({%- for message in messages -%}
{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif -%})";

constexpr std::string_view gemma = R"({%- for message in messages -%}
{%- if message['role'] not in ['user', 'assistant'] -%}{{ raise_exception('Only user and assistant') }}{%- endif -%}
{{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else 'user') + '\n' }}
{{- message['content'] | trim + '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif -%})";

constexpr std::string_view plain = R"({%- for message in messages -%}
{{ message['role'] + ': ' + message['content'] + '\n' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ 'assistant:' }}{% endif -%})";

/// A message on its way into the context.
struct turn {
    std::string role, content;
    json::object extra;
};

/// What a template that knows no tools tells the model about them.
std::string tools_block(const json::array& tools) {
    std::string list;
    for (const auto& t : tools) list += json::serialize(t) + "\n";
    return "# Functions\n\nYou can call the functions that are described here, one JSON object a line:\n<tools>\n" +
           list +
           "</tools>\n\nTo call one, write exactly this form:\n<tool_call>\n{\"name\": \"function name\", "
           "\"arguments\": {\"argument\": \"value\"}}\n</tool_call>\nWhat it returns comes back between "
           "<tool_response> and </tool_response>.";
}

/// A call as it would have been written by the model.
std::string written_call(const json::value& call) {
    const auto* function = call.is_object() ? call.get_object().if_contains("function") : nullptr;
    if (function == nullptr || !function->is_object()) return {};
    const auto& f = function->get_object();
    const auto* name = f.if_contains("name");
    const auto* arguments = f.if_contains("arguments");
    const auto& text = text_of(call_style::hermes);
    std::string out(text.begin);
    if (name != nullptr && name->is_string()) out += std::string_view(name->get_string());
    out += text.middle;
    if (arguments == nullptr)
        out += "{}";
    else if (arguments->is_string())
        out += std::string_view(arguments->get_string());
    else
        out += json::serialize(*arguments);
    return out + std::string(text.end);
}

void teach(std::vector<turn>& turns, const json::array& tools) {
    if (tools.empty()) return;
    if (turns.empty() || turns.front().role != "system") turns.insert(turns.begin(), turn{"system", "", {}});
    auto& first = turns.front().content;
    first += (first.empty() ? "" : "\n\n") + tools_block(tools);
}

/// Calls and results as plain text, for a template that knows neither.
std::vector<turn> spelled_out(std::vector<turn> turns) {
    std::vector<turn> out;
    for (turn& t : turns) {
        if (const auto* calls = t.extra.if_contains("tool_calls"); calls != nullptr && calls->is_array()) {
            for (const auto& c : calls->get_array()) t.content += (t.content.empty() ? "" : "\n") + written_call(c);
            t.extra.erase("tool_calls");
        }
        const bool result = t.role == "tool";
        if (result) t = {"user", "<tool_response>\n" + t.content + "\n</tool_response>", {}};
        // Results of several calls are one turn.
        if (result && !out.empty() && out.back().extra.contains("tool_response"))
            out.back().content += "\n" + t.content;
        else
            out.push_back(std::move(t));
        if (result) out.back().extra["tool_response"] = nullptr;
    }
    for (turn& t : out) t.extra.erase("tool_response");
    return out;
}

bool has_calls(const turn& t) { return t.extra.contains("tool_calls") || t.role == "tool"; }

result<std::vector<turn>> turns_of(std::span<const chat_message> messages, bool knows_developer) {
    std::vector<turn> out;
    for (const auto& m : messages) {
        turn t{m.role == "developer" && !knows_developer ? "system" : m.role, m.content, {}};
        if (!m.extra.empty()) {
            boost::system::error_code error;
            json::value extra = json::parse(m.extra, error);
            if (error || !extra.is_object()) {
                return fail(errc::invalid_request, "a message has further keys that are no JSON object", "messages");
            }
            for (auto& item : extra.get_object()) {
                if (!item.value().is_null()) t.extra[item.key()] = std::move(item.value());
            }
        }
        out.push_back(std::move(t));
    }
    return out;
}

/// System text goes in front of the user turn that follows, or becomes one where none does.
std::vector<turn> folded(std::vector<turn> turns) {
    std::vector<turn> out;
    std::string pending;
    for (turn& t : turns) {
        if (t.role == "system") {
            if (!t.content.empty()) pending += (pending.empty() ? "" : "\n\n") + t.content;
            continue;
        }
        if (t.role == "user" && !pending.empty()) t.content = std::exchange(pending, {}) + "\n\n" + t.content;
        out.push_back(std::move(t));
    }
    if (!pending.empty()) out.push_back({"user", std::move(pending), {}});
    return out;
}

std::vector<turn> merged(std::vector<turn> turns) {
    std::vector<turn> out;
    for (turn& t : turns) {
        if (!out.empty() && out.back().role == t.role && !has_calls(t) && !has_calls(out.back())) {
            out.back().content += "\n\n" + t.content;
        } else {
            out.push_back(std::move(t));
        }
    }
    return out;
}

/// OpenAI's wire form of arguments is JSON text; most templates print an object.
void shape_arguments(json::object& message, bool as_text) {
    auto* calls = message.if_contains("tool_calls");
    if (calls == nullptr || !calls->is_array()) return;
    for (auto& call : calls->get_array()) {
        json::value* function = call.is_object() ? call.get_object().if_contains("function") : nullptr;
        json::value* arguments =
            function != nullptr && function->is_object() ? function->get_object().if_contains("arguments") : nullptr;
        if (arguments == nullptr) continue;
        if (as_text && !arguments->is_string()) {
            *arguments = json::serialize(*arguments);
        } else if (!as_text && arguments->is_string()) {
            boost::system::error_code error;
            json::value parsed = json::parse(arguments->get_string(), error);
            if (!error && parsed.is_object()) *arguments = std::move(parsed);
        }
    }
}

json::object message_of(turn t, const chat_habits& habits) {
    json::object m;
    m["role"] = t.role;
    if (habits.null_content && t.content.empty() && t.extra.contains("tool_calls")) {
        m["content"] = nullptr;
    } else if (habits.content_parts) {
        m["content"] = json::array{{{"type", "text"}, {"text", t.content}}};
    } else {
        m["content"] = t.content;
    }
    for (auto& item : t.extra) {
        if (item.key() != "role" && item.key() != "content") m[item.key()] = std::move(item.value());
    }
    shape_arguments(m, habits.arguments_as_text);
    return m;
}

struct built_in {
    std::string_view name, source;
};
built_in built_in_for(const chat_format::has_token& vocabulary) {
    if (vocabulary("<|im_start|>")) return {"chatml", chatml};
    if (vocabulary("<start_of_turn>")) return {"gemma", gemma};
    return {"plain", plain};
}

}  // namespace

result<std::string> flatten_content(const json::value& content) {
    if (content.is_null()) return std::string();
    if (content.is_string()) return std::string(content.get_string());
    if (!content.is_array())
        return fail(errc::invalid_request, "content must be a string or a list of parts", "messages");
    std::string out;
    bool first = true;
    for (const auto& part : content.get_array()) {
        const json::value* text = part.is_object() ? part.get_object().if_contains("text") : nullptr;
        const json::value* type = part.is_object() ? part.get_object().if_contains("type") : nullptr;
        if (type == nullptr || !type->is_string()) {
            return fail(errc::invalid_request, "a content part needs a type", "messages");
        }
        if (type->get_string() != "text" || text == nullptr || !text->is_string()) {
            return fail(errc::unsupported_parameter, "only content parts of type text are supported", "messages");
        }
        if (!std::exchange(first, false)) out += '\n';
        out += std::string_view(text->get_string());
    }
    return out;
}

result<json::object> chat_format::context(std::span<const chat_message> messages, const chat_options& options) const {
    TROUPE_TRY(std::vector<turn> turns, turns_of(messages, knows_developer_));
    if (taught_) teach(turns, options.tools);
    if (spelled_) turns = spelled_out(std::move(turns));
    if (habits_.fold_system) turns = folded(std::move(turns));
    if (habits_.merge_turns) turns = merged(std::move(turns));
    json::array list;
    for (turn& t : turns) list.push_back(message_of(std::move(t), habits_));
    json::object out = options.variables;
    out.erase("tools");
    out["messages"] = std::move(list);
    if (!options.tools.empty() && !taught_)
        out["tools"] = options.tools;
    else if (habits_.tools_always)
        out["tools"] = nullptr;
    out["bos_token"] = bos_token_;
    out["eos_token"] = eos_token_;
    out["add_generation_prompt"] = options.add_generation_prompt;
    return out;
}

result<std::vector<text_part>> chat_format::render(
    std::span<const chat_message> messages, const chat_options& options, std::int64_t now) const {
    TROUPE_TRY(const json::object built, context(messages, options));
    return template_->render(built, now);
}

// -- probes --------------------------------------------------------------------------------

result<std::string> chat_format::probe(const chat_habits& habits, std::span<const chat_message> messages) const {
    chat_format trial = *this;
    trial.habits_ = habits;
    TROUPE_TRY(const auto parts, trial.render(messages, {}, 0));
    return join(parts);
}

void chat_format::find_habits() {
    const auto shows = [&](const chat_habits& h, const std::vector<chat_message>& messages, std::string_view text) {
        const auto r = probe(h, messages);
        return r.ok() && r->find(text) != std::string::npos;
    };
    const std::string mark = "q7probe";  // a word no template contains
    const std::vector<chat_message> one = {{"user", mark, ""}};
    // A user message alone first: the other questions are put in the form it needs.
    const chat_habits bases[] = {
        {}, {.tools_always = true}, {.content_parts = true}, {.content_parts = true, .tools_always = true}};
    for (const auto& base : bases) {
        if (!shows(base, one, mark)) continue;
        habits_ = base;
        break;
    }
    chat_habits h = habits_;
    h.fold_system = !shows(h, {{"system", mark, ""}, {"user", "a", ""}}, mark);
    h.merge_turns = !shows(h, {{"user", "a", ""}, {"user", mark, ""}}, mark);
    const std::string call =
        R"({"tool_calls":[{"id":"call00001","type":"function","function":{"name":"f","arguments":{"k":")" + mark +
        R"("}}}]})";
    const std::vector<chat_message> calling = {{"user", "a", ""}, {"assistant", "", call}};
    for (const auto& [as_text, null_content] : {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
        chat_habits form = h;
        form.arguments_as_text = as_text;
        form.null_content = null_content;
        if (!shows(form, calling, mark)) continue;
        h = form;
        break;
    }
    habits_ = h;
}

/// Shows it tools and lets it render a call.
void chat_format::find_calls() {
    const std::string mark = "q7probe";
    const std::vector<chat_message> one = {{"user", "a", ""}};
    chat_options with;
    with.tools = {{{"type", "function"},
        {"function", {{"name", mark}, {"description", "d"},
                         {"parameters", {{"type", "object"}, {"properties", json::object{}}}}}}}};
    const auto shown = render(one, with, 0);
    const std::vector<chat_message> calling = {{"user", "a", ""},
        {"assistant", "",
            R"({"tool_calls":[{"id":"call00001","type":"function","function":{"name":"f","arguments":{"k":"q7probe"}}}]})"}};
    with.tools[0].at("function").at("name") = "f";
    auto called = render(calling, with, 0);
    const auto writes = [&](call_style style) {
        const auto& t = text_of(style);
        const auto text =
            std::string(t.begin) + "f" + std::string(t.middle) + R"({"k": "q7probe"})" + std::string(t.end);
        return called.ok() && join(*called).find(text) != std::string::npos;
    };
    if (!shown.ok() || join(*shown).find(mark) == std::string::npos) {
        taught_ = true;
        spelled_ = !called.ok() || join(*called).find(mark) == std::string::npos;
        calls_ = call_style::hermes;
    } else if (writes(call_style::hermes)) {
        calls_ = call_style::hermes;
    } else if (writes(call_style::llama3)) {
        calls_ = call_style::llama3;
    }
}

result<std::shared_ptr<const chat_format>> chat_format::load(std::string source, std::string bos_token,
    std::string eos_token, const has_token& vocabulary, template_budget budget) {
    chat_format format;
    if (source.empty()) {
        const auto stand_in = built_in_for(vocabulary);
        format.origin_ = stand_in.name;
        source = stand_in.source;
    }
    format.knows_developer_ = source.find("developer") != std::string::npos;
    TROUPE_TRY(format.template_, chat_template::parse(std::move(source), budget));
    format.bos_token_ = std::move(bos_token);
    format.eos_token_ = std::move(eos_token);
    format.find_habits();
    format.find_calls();
    const std::vector<chat_message> one = {{"user", "a", ""}};
    if (const auto r = format.probe(format.habits_, one); !r) {
        return fail(errc::model_unsupported, "the chat template renders no user message: " + r.error().message,
            "tokenizer.chat_template");
    }
    return std::make_shared<const chat_format>(std::move(format));
}

}  // namespace troupe::model
