#include "net/openai_wire.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/clock.hpp"
#include "core/ids.hpp"
#include "core/limits.hpp"
#include "core/utf8.hpp"
#include "net/event_json.hpp"
#include "net/http_types.hpp"
#include "net/output_format.hpp"
#include "net/params.hpp"

namespace troupe::net {
namespace json = boost::json;
namespace {

error wrong(std::string_view name, std::string_view expected) {
    return fail(errc::invalid_request, fmt::format("'{}' must be {}", name, expected), std::string(name));
}

result<std::string> read_content(const json_object& message, std::string_view role) {
    const auto e = message.find("content");
    if (!e) {
        if (role == "assistant") return std::string{};  // tool calls only
        return fail(errc::invalid_request, "a message has no 'content'", "messages");
    }
    std::string_view text;
    if (!e->get(text)) return std::string(text);
    simdjson::dom::array parts;
    if (e->get(parts))
        return fail(errc::invalid_request, "'content' must be a string or a list of text parts", "messages");
    std::string joined;
    for (const auto part : parts) {
        TROUPE_TRY(const auto o, json_object::from(part, "a content part"));
        TROUPE_TRY(const auto type, o.required_text("type"));
        if (type != "text")
            return fail(errc::unsupported_parameter,
                fmt::format("content parts of type '{}' are not available in this version", type), "messages");
        TROUPE_TRY(const auto piece, o.required_text("text"));
        joined += piece;
    }
    return joined;
}

/// Keys a template may read beside role and content.
std::string template_extras(const json_object& message) {
    std::string extras;
    for (const auto* name : {"name", "tool_calls", "tool_call_id", "reasoning_content"})
        if (const auto e = message.find(name))
            extras += fmt::format("{}\"{}\":{}", extras.empty() ? "{" : ",", name, to_json(*e));
    return extras.empty() ? extras : extras + "}";
}

result<completion_wire> read_common(const json_object& o, const param_rules& rules, bool reads_tools) {
    completion_wire w;
    TROUPE_TRYV(refuse_unbuilt(o, reads_tools));
    TROUPE_TRYV(check_ignored(o));
    TROUPE_TRY(w.n, read_choices(o));
    TROUPE_TRY(w.request.params, read_params(o, rules));
    TROUPE_TRY(const auto model, o.text("model"));
    TROUPE_TRY(const auto user, o.text("user"));
    TROUPE_TRY(const auto session, o.text("session_id"));
    TROUPE_TRY(const auto stream, o.boolean("stream"));
    TROUPE_TRY(const auto progress, o.boolean("return_progress"));
    TROUPE_TRY(const auto timings, o.boolean("timings_per_token"));
    w.request.model = model.value_or("");
    w.user = user.value_or("");
    w.request.session_id = session.value_or("");
    w.stream = stream.value_or(false);
    w.return_progress = progress.value_or(false);
    w.timings_per_token = timings.value_or(false);
    if (!w.request.session_id.empty() && w.n > 1)
        return fail(errc::unsupported_parameter, "a session has one answer: 'n' must be 1 with 'session_id'", "n");
    if (const auto options = o.find("stream_options")) {
        TROUPE_TRY(const auto inner, json_object::from(*options, "'stream_options'"));
        TROUPE_TRY(const auto usage, inner.boolean("include_usage"));
        w.include_usage = usage.value_or(false);
    }
    return w;
}

json::array bytes_json(std::string_view bytes) {
    json::array list;
    for (const unsigned char b : bytes) list.push_back(b);
    return list;
}

/// NaN: the first token of an echoed prompt has none.
json::value logprob_json(double logprob) {
    return std::isfinite(logprob) ? json::value(logprob) : json::value(nullptr);
}

/// In a stream calls are told apart by their index; whole ones stand in order.
json::object call_json(const tool_call_delta& c, bool with_index) {
    json::object o;
    if (with_index) o["index"] = c.index;
    json::object function;
    if (!c.id.empty()) {
        o["id"] = c.id;
        o["type"] = "function";
        function["name"] = c.name;
    }
    function["arguments"] = c.arguments;
    o["function"] = std::move(function);
    return o;
}

}  // namespace

result<std::vector<chat_message>> read_messages(const json_object& o) {
    const auto e = o.find("messages");
    if (!e) return fail(errc::invalid_request, "'messages' is missing", "messages");
    simdjson::dom::array list;
    if (e->get(list) || list.size() == 0) return wrong("messages", "a non-empty list of messages");
    std::vector<chat_message> messages;
    for (const auto item : list) {
        TROUPE_TRY(const auto m, json_object::from(item, "a message"));
        TROUPE_TRY(auto role, m.text("role"));
        if (!role ||
            (*role != "system" && *role != "developer" && *role != "user" && *role != "assistant" && *role != "tool"))
            return fail(errc::invalid_request, "'role' must be system, developer, user, assistant or tool", "messages");
        TROUPE_TRY(auto content, read_content(m, *role));
        messages.push_back({*std::move(role), std::move(content), template_extras(m)});
    }
    return messages;
}

result<completion_wire> read_chat_request(const json_object& o, std::int64_t n_vocab) {
    param_rules rules{2, n_vocab, false};
    TROUPE_TRY(auto w, read_common(o, rules, true));
    w.request.what = completion_request::kind::chat;
    TROUPE_TRYV(read_tools(o, w.request));
    TROUPE_TRY(w.request.messages, read_messages(o));
    return w;
}

result<completion_wire> read_text_request(const json_object& o, std::int64_t n_vocab) {
    TROUPE_TRY(const auto echo, o.boolean("echo"));
    param_rules rules{2, n_vocab, echo.value_or(false), true};
    TROUPE_TRY(auto w, read_common(o, rules, false));
    w.request.what = completion_request::kind::text;
    w.request.echo = echo.value_or(false);
    if (!w.request.params.max_tokens) w.request.params.max_tokens = 16;
    w.request.prompt_name = "prompt";
    TROUPE_TRY(w.prompts, read_prompts(o, "prompt", n_vocab));
    if (!w.request.session_id.empty())
        return fail(errc::unsupported_parameter, "a session continues with chat completions only", "session_id");
    if (w.prompts.size() * static_cast<std::size_t>(w.n) > limits::max_prompts)
        return wrong("n", fmt::format("so small that n times the prompts is at most {}", limits::max_prompts));
    return w;
}

std::string token_name(std::string_view bytes) {
    std::string text = to_valid_utf8(bytes);
    if (text == bytes) return text;
    text = "bytes:";
    for (const unsigned char b : bytes) text += fmt::format("\\x{:02x}", b);
    return text;
}

json::object token_json(const token_choice& t) {
    return {{"token", to_valid_utf8(t.bytes)}, {"logprob", logprob_json(t.logprob)}, {"bytes", bytes_json(t.bytes)}};
}

completion_writer::completion_writer(const completion_wire& wire, std::string model)
    : chat_(wire.request.what == completion_request::kind::chat), include_usage_(wire.include_usage),
      timings_per_token_(wire.timings_per_token), wants_logprobs_(wire.request.params.n_logprobs.has_value()),
      n_(wire.n), id_(make_id(chat_ ? "chatcmpl-" : "cmpl-")), model_(std::move(model)), created_(unix_ms() / 1000),
      parts_(std::max<std::size_t>(1, wire.prompts.size()) * static_cast<std::size_t>(wire.n)) {}

json::object completion_writer::head() const {
    return {{"id", id_}, {"object", chat_ ? "chat.completion.chunk" : "text_completion"}, {"created", created_},
        {"model", model_}, {"system_fingerprint", "troupe"}};
}

json::object completion_writer::choice(std::size_t part, json::object content, std::string_view finish_reason) const {
    json::object c{{"index", part}};
    for (auto& [key, value] : content) c[key] = value;
    if (!c.contains("logprobs")) c["logprobs"] = nullptr;
    c["finish_reason"] = finish_reason.empty() ? json::value(nullptr) : json::value(finish_reason);
    return c;
}

json::object completion_writer::empty_content() const {
    if (chat_) return {{"delta", json::object{}}};
    return {{"text", ""}};
}

std::string completion_writer::frame(json::object o) const {
    if (include_usage_ && !o.contains("usage")) o["usage"] = nullptr;
    return "data: " + json::serialize(o) + "\n\n";
}

std::string completion_writer::begin(std::size_t part) {
    if (std::exchange(parts_[part].begun, true) || !chat_) return {};
    auto o = head();
    o["choices"] = json::array{choice(part, {{"delta", {{"role", "assistant"}, {"content", ""}}}}, "")};
    return frame(std::move(o));
}

/// `offset`: characters before the first of the list, moved behind its last.
json::value completion_writer::logprobs_json(const std::vector<token_logprobs>& list, std::size_t& offset) const {
    if (!wants_logprobs_) return nullptr;
    if (chat_) {
        json::array content;
        for (const auto& t : list) {
            if (t.end) continue;  // chat lists the tokens of the text
            auto o = token_json(t.token);
            json::array top;
            for (const auto& other : t.top) top.push_back(token_json(other));
            o["top_logprobs"] = std::move(top);
            content.push_back(std::move(o));
        }
        return json::object{{"content", std::move(content)}, {"refusal", nullptr}};
    }
    json::array tokens, values, tops, offsets;
    for (const auto& t : list) {
        tokens.push_back(json::value(token_name(t.token.bytes)));
        values.push_back(logprob_json(t.token.logprob));
        json::object top;
        // The token itself is always among them. Of tokens with one name the likelier counts.
        const auto add = [&](const token_choice& c) {
            if (std::isfinite(c.logprob)) top.emplace(token_name(c.bytes), c.logprob);
        };
        for (const auto& other : t.top) add(other);
        add(t.token);
        tops.push_back(top.empty() ? json::value(nullptr) : json::value(std::move(top)));
        offsets.push_back(offset);
        offset += static_cast<std::size_t>(t.n_chars);
    }
    return json::object{{"tokens", std::move(tokens)}, {"token_logprobs", std::move(values)},
        {"top_logprobs", std::move(tops)}, {"text_offset", std::move(offsets)}};
}

/// One chunk for each part of a call: id, name and no arguments first, then fragments.
std::string completion_writer::call_frames(std::size_t part, const delta_event& d) const {
    std::string frames;
    for (const auto& c : d.calls) {
        auto o = head();
        json::object content{{"delta", {{"tool_calls", json::array{call_json(c, true)}}}}};
        o["choices"] = json::array{choice(part, std::move(content), "")};
        frames += frame(std::move(o));
    }
    return frames;
}

json::object completion_writer::message_json(const part_text& p) {
    json::object message{{"role", "assistant"}, {"content", p.text}, {"refusal", nullptr}};
    if (p.calls.empty()) return message;
    if (p.text.empty()) message["content"] = nullptr;
    json::array list;
    for (const auto& c : p.calls) list.push_back(call_json(c, false));
    message["tool_calls"] = std::move(list);
    return message;
}

std::string completion_writer::chunk(std::size_t part, const delta_event& d) {
    std::string frames = begin(part);
    if (!d.calls.empty() && d.text.empty() && d.logprobs.empty()) return frames + call_frames(part, d);
    auto o = head();
    json::object content;
    if (chat_)
        content["delta"] = json::object{{"content", d.text}};
    else
        content["text"] = d.text;
    if (wants_logprobs_) content["logprobs"] = logprobs_json(d.logprobs, parts_[part].offset);
    o["choices"] = json::array{choice(part, std::move(content), "")};
    if (timings_per_token_) o["timings"] = json::object{{"predicted_n", d.n_tokens}};
    return frames + frame(std::move(o)) + call_frames(part, d);
}

std::string completion_writer::progress(std::size_t part, const generation_progress& p) {
    std::string frames = begin(part);
    auto o = head();
    o["choices"] = json::array{choice(part, empty_content(), "")};
    o["prompt_progress"] = json::object{{"total", p.total}, {"cache", p.cached}, {"processed", p.processed}};
    return frames + frame(std::move(o));
}

void completion_writer::done(std::size_t part, const generation_done& d) {
    parts_[part].finish_reason = d.finish_reason;
    const auto& t = d.timings;
    usage_.completion_tokens += d.usage.completion_tokens;
    timings_.predicted_n += t.predicted_n;
    timings_.predicted_ms = std::max(timings_.predicted_ms, t.predicted_ms);
    timings_.queue_ms = std::max(timings_.queue_ms, t.queue_ms);
    if (part % static_cast<std::size_t>(n_) != 0) return;  // the other choices share the prompt
    usage_.prompt_tokens += d.usage.prompt_tokens;
    usage_.cached_tokens += d.usage.cached_tokens;
    timings_.prompt_n += t.prompt_n;
    timings_.prompt_ms += t.prompt_ms;
}

std::string completion_writer::finish(std::size_t part, const generation_done& d) {
    done(part, d);
    std::string frames = begin(part);
    auto o = head();
    o["choices"] = json::array{choice(part, empty_content(), d.finish_reason)};
    o["timings"] = timings_json(d.timings, d.usage);
    return frames + frame(std::move(o));
}

std::string completion_writer::end() const {
    std::string frames;
    if (include_usage_) {
        auto last = head();
        last["choices"] = json::array{};
        last["usage"] = usage_json(usage_);
        frames = frame(std::move(last));
    }
    return frames + "data: [DONE]\n\n";
}

void completion_writer::collect(std::size_t part, const delta_event& d) {
    auto& p = parts_[part];
    p.text += d.text;
    p.logprobs.insert(p.logprobs.end(), d.logprobs.begin(), d.logprobs.end());
    for (const auto& c : d.calls) {
        if (!c.id.empty())
            p.calls.push_back(c);
        else if (!p.calls.empty())
            p.calls.back().arguments += c.arguments;
    }
}

std::string completion_writer::whole() const {
    auto o = head();
    if (chat_) o["object"] = "chat.completion";
    json::array choices;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
        const auto& p = parts_[i];
        json::object content;
        if (chat_)
            content["message"] = message_json(p);
        else
            content["text"] = p.text;
        std::size_t offset = 0;
        content["logprobs"] = logprobs_json(p.logprobs, offset);
        choices.push_back(choice(i, std::move(content), p.finish_reason));
    }
    o["choices"] = std::move(choices);
    o["usage"] = usage_json(usage_);
    o["timings"] = timings_json(timings_, usage_);
    return json::serialize(o);
}

}  // namespace troupe::net
