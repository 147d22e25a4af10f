#include "net/openai_wire.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/clock.hpp"
#include "core/ids.hpp"
#include "core/utf8.hpp"
#include "net/event_json.hpp"
#include "net/http_types.hpp"
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

result<completion_wire> read_common(const json_object& o, const param_rules& rules) {
    completion_wire w;
    TROUPE_TRYV(refuse_unbuilt(o));
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

/// Clients index the text by character: bytes that start one.
std::size_t characters(std::string_view bytes) {
    return static_cast<std::size_t>(
        std::count_if(bytes.begin(), bytes.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

/// NaN: the first token of an echoed prompt has none.
json::value logprob_json(double logprob) {
    return std::isfinite(logprob) ? json::value(logprob) : json::value(nullptr);
}

json::object token_json(const token_choice& t) {
    return {{"token", to_valid_utf8(t.bytes)}, {"logprob", logprob_json(t.logprob)}, {"bytes", bytes_json(t.bytes)}};
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
    TROUPE_TRY(auto w, read_common(o, rules));
    w.request.what = completion_request::kind::chat;
    TROUPE_TRY(w.request.messages, read_messages(o));
    return w;
}

result<completion_wire> read_text_request(const json_object& o, std::int64_t n_vocab) {
    TROUPE_TRY(const auto echo, o.boolean("echo"));
    param_rules rules{2, n_vocab, echo.value_or(false), true};
    TROUPE_TRY(auto w, read_common(o, rules));
    w.request.what = completion_request::kind::text;
    w.request.echo = echo.value_or(false);
    if (!w.request.params.max_tokens) w.request.params.max_tokens = 16;
    const auto e = o.find("prompt");
    if (!e) return fail(errc::invalid_request, "'prompt' is missing", "prompt");
    simdjson::dom::element prompt = *e;
    simdjson::dom::array list;
    if (!prompt.get(list) && list.size() == 1 && !list.at(0).value_unsafe().is_int64())
        prompt = list.at(0).value_unsafe();
    std::string_view text;
    if (!prompt.get(text)) {
        w.request.prompt = text;
        return w;
    }
    if (prompt.get(list) || list.size() == 0) return wrong("prompt", "a string or a non-empty list of token ids");
    if (!list.at(0).value_unsafe().is_int64())
        return fail(
            errc::unsupported_parameter, "several prompts in one request are not available in this version", "prompt");
    std::vector<std::int32_t> ids;
    for (const auto item : list) {
        TROUPE_TRY(ids.emplace_back(), token_id_of(item, "prompt", n_vocab));
    }
    w.request.prompt_ids = std::move(ids);
    return w;
}

completion_writer::completion_writer(const completion_wire& wire, std::string model)
    : chat_(wire.request.what == completion_request::kind::chat), include_usage_(wire.include_usage),
      timings_per_token_(wire.timings_per_token), id_(make_id(chat_ ? "chatcmpl-" : "cmpl-")), model_(std::move(model)),
      created_(unix_ms() / 1000), wants_logprobs_(wire.request.params.n_logprobs.has_value()) {}

json::object completion_writer::head() const {
    return {{"id", id_}, {"object", chat_ ? "chat.completion.chunk" : "text_completion"}, {"created", created_},
        {"model", model_}, {"system_fingerprint", "troupe"}};
}

json::object completion_writer::choice(json::object content, std::string_view finish_reason) const {
    json::object c{{"index", 0}};
    for (auto& [key, value] : content) c[key] = value;
    if (!c.contains("logprobs")) c["logprobs"] = nullptr;
    c["finish_reason"] = finish_reason.empty() ? json::value(nullptr) : json::value(finish_reason);
    return c;
}

std::string completion_writer::frame(json::object o) const {
    if (include_usage_ && !o.contains("usage")) o["usage"] = nullptr;
    return "data: " + json::serialize(o) + "\n\n";
}

std::string completion_writer::start() {
    if (!chat_) return {};
    auto o = head();
    o["choices"] = json::array{choice({{"delta", {{"role", "assistant"}, {"content", ""}}}}, "")};
    return frame(std::move(o));
}

json::value completion_writer::logprobs_json(const std::vector<token_logprobs>& list, std::size_t text_offset) const {
    if (!wants_logprobs_) return nullptr;
    if (chat_) {
        json::array content;
        for (const auto& t : list) {
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
        tokens.push_back(json::value(to_valid_utf8(t.token.bytes)));
        values.push_back(logprob_json(t.token.logprob));
        json::object top;
        for (const auto& other : t.top) top[to_valid_utf8(other.bytes)] = logprob_json(other.logprob);
        if (top.empty() && std::isfinite(t.token.logprob)) top[to_valid_utf8(t.token.bytes)] = t.token.logprob;
        tops.push_back(top.empty() ? json::value(nullptr) : json::value(std::move(top)));
        offsets.push_back(text_offset);
        text_offset += characters(t.token.bytes);
    }
    return json::object{{"tokens", std::move(tokens)}, {"token_logprobs", std::move(values)},
        {"top_logprobs", std::move(tops)}, {"text_offset", std::move(offsets)}};
}

std::string completion_writer::chunk(const delta_event& d) {
    auto o = head();
    json::object content;
    if (chat_)
        content["delta"] = json::object{{"content", d.text}};
    else
        content["text"] = d.text;
    if (wants_logprobs_) content["logprobs"] = logprobs_json(d.logprobs, streamed_);
    streamed_ += characters(d.text);
    o["choices"] = json::array{choice(std::move(content), "")};
    if (timings_per_token_) o["timings"] = json::object{{"predicted_n", d.n_tokens}};
    return frame(std::move(o));
}

std::string completion_writer::progress(const generation_progress& p) {
    auto o = head();
    json::object content;
    if (chat_)
        content["delta"] = json::object{};
    else
        content["text"] = "";
    o["choices"] = json::array{choice(std::move(content), "")};
    o["prompt_progress"] = json::object{{"total", p.total}, {"cache", p.cached}, {"processed", p.processed}};
    return frame(std::move(o));
}

std::string completion_writer::finish(const generation_done& d) {
    auto o = head();
    json::object content;
    if (chat_)
        content["delta"] = json::object{};
    else
        content["text"] = "";
    o["choices"] = json::array{choice(std::move(content), d.finish_reason)};
    o["timings"] = timings_json(d.timings, d.usage);
    std::string frames = frame(std::move(o));
    if (include_usage_) {
        auto last = head();
        last["choices"] = json::array{};
        last["usage"] = usage_json(d.usage);
        frames += frame(std::move(last));
    }
    return frames + "data: [DONE]\n\n";
}

std::string completion_writer::failure(const error& e) {
    return "data: {\"error\":" + error_object(e) + "}\n\ndata: [DONE]\n\n";
}

void completion_writer::collect(const delta_event& d) {
    text_ += d.text;
    logprobs_.insert(logprobs_.end(), d.logprobs.begin(), d.logprobs.end());
}

std::string completion_writer::whole(const generation_done& d) const {
    auto o = head();
    json::object content;
    if (chat_) {
        o["object"] = "chat.completion";
        content["message"] = json::object{{"role", "assistant"}, {"content", text_}, {"refusal", nullptr}};
    } else {
        content["text"] = text_;
    }
    content["logprobs"] = logprobs_json(logprobs_, 0);
    o["choices"] = json::array{choice(std::move(content), d.finish_reason)};
    o["usage"] = usage_json(d.usage);
    o["timings"] = timings_json(d.timings, d.usage);
    return json::serialize(o);
}

}  // namespace troupe::net
