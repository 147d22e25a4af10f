#include "net/event_json.hpp"

#include "core/utf8.hpp"

namespace troupe::net {
namespace json = boost::json;
namespace {

template <class... F> struct overloaded : F... { using F::operator()...; };
template <class... F> overloaded(F...) -> overloaded<F...>;

json::object frame(std::string_view type, const event& e) {
    json::object o;
    o["type"] = type;
    if (!e.session.empty()) {
        o["session"] = e.session;
        o["seq"] = e.seq;
    }
    return o;
}

void put(json::object& o, std::string_view key, std::string_view text) {
    if (!text.empty()) o[key] = text;
}

json::object payload(const event& e) {
    return std::visit(overloaded{[&](const snapshot_event& s) {
                                     auto o = frame("snapshot", e);
                                     for (auto& [key, value] : snapshot_json(s)) o[key] = value;
                                     return o;
                                 },
                          [&](const message_created& m) {
                              auto o = frame("message.created", e);
                              o["message"] = message_json(m.message);
                              return o;
                          },
                          [&](const generation_queued& q) {
                              auto o = frame("generation.queued", e);
                              o["message"] = q.message;
                              o["position"] = q.position;
                              if (q.eta_ms) o["eta_ms"] = *q.eta_ms;
                              return o;
                          },
                          [&](const generation_progress& p) {
                              auto o = frame("generation.progress", e);
                              o["message"] = p.message;
                              o["processed"] = p.processed;
                              o["total"] = p.total;
                              o["cached"] = p.cached;
                              return o;
                          },
                          [&](const delta_event& d) {
                              auto o = frame("delta", e);
                              o["message"] = d.message;
                              o["offset"] = d.offset;
                              o["text"] = d.text;
                              if (d.from_seq) o["from_seq"] = d.from_seq;
                              return o;
                          },
                          [&](const generation_paused& p) {
                              auto o = frame("generation.paused", e);
                              o["message"] = p.message;
                              o["reason"] = p.reason;
                              return o;
                          },
                          [&](const generation_resumed& r) {
                              auto o = frame("generation.resumed", e);
                              o["message"] = r.message;
                              o["after_ms"] = r.after_ms;
                              if (r.numerics_changed) o["numerics_changed"] = true;
                              return o;
                          },
                          [&](const embedding_ready& r) {  // of requests without a session: no page ever sees it
                              auto o = frame("embedding", e);
                              o["message"] = r.message;
                              return o;
                          },
                          [&](const generation_done& d) {
                              auto o = frame("generation.done", e);
                              o["message"] = d.message;
                              o["finish_reason"] = d.finish_reason;
                              put(o, "stopped_by", d.stopped_by);
                              o["usage"] = usage_json(d.usage);
                              o["timings"] = timings_json(d.timings, d.usage);
                              return o;
                          },
                          [&](const generation_error& g) {
                              auto o = frame("generation.error", e);
                              o["message"] = g.message;
                              o["error"] = session_error_json(g.err);
                              return o;
                          },
                          [&](const session_updated& s) {
                              auto o = frame("session.updated", e);
                              o["session_info"] = session_json(s.info);
                              return o;
                          },
                          [&](const session_deleted&) { return frame("session.deleted", e); },
                          [&](const degraded_event& d) {
                              auto o = frame("degraded", e);
                              o["level"] = d.level;
                              o["reason"] = d.reason;
                              return o;
                          },
                          [&](const restored_event& r) {
                              auto o = frame("restored", e);
                              o["level"] = r.level;
                              o["reason"] = r.reason;
                              return o;
                          }},
        e.payload);
}

}  // namespace

std::string event_json(const event& e, std::string_view request_id) {
    auto o = payload(e);
    put(o, "request_id", request_id);
    return json::serialize(o);
}

json::object usage_json(const usage_counts& u) {
    json::object o;
    o["prompt_tokens"] = u.prompt_tokens;
    o["completion_tokens"] = u.completion_tokens;
    o["total_tokens"] = u.prompt_tokens + u.completion_tokens;
    o["prompt_tokens_details"] = json::object{{"cached_tokens", u.cached_tokens}};
    return o;
}

json::object timings_json(const timing_counts& t, const usage_counts& u) {
    const auto rate = [](std::int64_t n, double ms) { return ms > 0 ? 1000.0 * static_cast<double>(n) / ms : 0.0; };
    const auto each = [](std::int64_t n, double ms) { return n > 0 ? ms / static_cast<double>(n) : 0.0; };
    json::object o;
    o["cache_n"] = u.cached_tokens;
    o["prompt_n"] = t.prompt_n;
    o["prompt_ms"] = t.prompt_ms;
    o["prompt_per_token_ms"] = each(t.prompt_n, t.prompt_ms);
    o["prompt_per_second"] = rate(t.prompt_n, t.prompt_ms);
    o["predicted_n"] = t.predicted_n;
    o["predicted_ms"] = t.predicted_ms;
    o["predicted_per_token_ms"] = each(t.predicted_n, t.predicted_ms);
    o["predicted_per_second"] = rate(t.predicted_n, t.predicted_ms);
    o["queue_ms"] = t.queue_ms;
    return o;
}

json::object session_error_json(const error& e) {
    json::object o;
    o["code"] = info(e.code).name;
    o["message"] = to_valid_utf8(e.message);
    o["retryable"] = info(e.code).retryable;
    put(o, "param", to_valid_utf8(e.param));
    if (e.retry_after_ms > 0) o["retry_after_ms"] = e.retry_after_ms;
    if (e.code == errc::context_length_exceeded) {
        o["n_prompt_tokens"] = e.n_prompt_tokens;
        o["n_ctx"] = e.n_ctx;
    }
    return o;
}

json::object message_json(const message_view& m) {
    json::object o;
    o["id"] = m.id;
    o["parent"] = m.parent.empty() ? json::value(nullptr) : json::value(m.parent);
    o["role"] = m.role;
    o["content"] = m.content;
    o["created"] = m.created;
    put(o, "finish_reason", m.finish_reason);
    if (m.err) o["error"] = session_error_json(*m.err);
    return o;
}

json::object params_json(const generation_params& p) {
    json::object o;
    const auto give = [&](std::string_view key, const auto& value) {
        if (value) o[key] = *value;
    };
    give("temperature", p.temperature);
    give("top_p", p.top_p);
    give("min_p", p.min_p);
    give("typical_p", p.typical_p);
    give("top_k", p.top_k);
    give("repeat_penalty", p.repeat_penalty);
    give("repeat_last_n", p.penalty_last_n);
    give("presence_penalty", p.presence_penalty);
    give("frequency_penalty", p.frequency_penalty);
    give("seed", p.seed);
    give("max_tokens", p.max_tokens);
    give("min_tokens", p.min_tokens);
    give("ignore_eos", p.ignore_eos);
    if (p.stop) o["stop"] = json::value_from(*p.stop);
    if (p.stop_token_ids) o["stop_token_ids"] = json::value_from(*p.stop_token_ids);
    if (p.logit_bias) {
        json::object bias;
        for (const auto& [id, value] : *p.logit_bias) bias[std::to_string(id)] = value;
        o["logit_bias"] = std::move(bias);
    }
    return o;
}

json::object settings_json(const session_settings& s) {
    json::object o = params_json(s.params);
    put(o, "model", s.model);
    o["system"] = s.system;
    return o;
}

json::object session_json(const session_view& s) {
    json::object o;
    o["id"] = s.id;
    o["title"] = s.title;
    o["settings"] = settings_json(s.settings);
    o["created"] = s.created;
    o["updated"] = s.updated;
    return o;
}

json::object snapshot_json(const snapshot_event& s) {
    json::object o;
    o["seq"] = s.seq;
    o["session_info"] = session_json(s.info);
    json::array messages;
    for (const auto& m : s.messages) messages.push_back(message_json(m));
    o["messages"] = std::move(messages);
    o["leaf"] = s.leaf.empty() ? json::value(nullptr) : json::value(s.leaf);
    if (s.generating) o["generating"] = json::object{{"message", s.generating->message}, {"text", s.generating->text}};
    return o;
}

}  // namespace troupe::net
