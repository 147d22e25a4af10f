// Health, models, metrics, tokenizing and the operator's routes.
#include <boost/json.hpp>

#include "core/utf8.hpp"
#include "net/body.hpp"
#include "net/openai_wire.hpp"
#include "net/routes.hpp"

namespace troupe::net {
namespace json = boost::json;
namespace {

void health(services& s, exchange_ptr x, const captures&) {
    s.engine.health(on_reply<health_report>(x, [x](const health_report& h) {
        json::object o{{"status", h.status}};
        o["executor"] = json::object{{"epoch", h.epoch}, {"restarts", h.restarts},
            {"last_fault", h.last_fault.empty() ? json::value(nullptr) : json::value(h.last_fault)}};
        o["level"] = h.level;
        o["probe_ms"] = h.probe_ms;
        json::array reasons;
        for (const auto& r : h.reasons) reasons.push_back(json::value(r));
        o["reasons"] = std::move(reasons);
        http_response r;
        if (h.status == "loading") o["progress"] = h.load_progress;
        if (!h.healthy()) {
            r.status = 503;
            const std::string message = h.status == "loading" ? "Loading model" : "the engine is " + h.status;
            o["error"] = json::object{{"code", h.status == "loading" ? "not_ready" : h.status}, {"message", message},
                {"type", "unavailable_error"}};
            r.headers.emplace_back("Retry-After", "1");
        }
        r.headers.emplace_back("Cache-Control", "no-store");
        r.body = json::serialize(o);
        x->respond(std::move(r));
    }));
}

json::object model_json(const model_card& c) {
    json::object o{{"id", c.id}, {"object", "model"}, {"created", c.created}, {"owned_by", "troupe"}};
    o["meta"] = json::object{{"vocab_type", c.vocab_type}, {"n_vocab", c.n_vocab}, {"n_ctx_train", c.n_ctx_train},
        {"n_ctx", c.n_ctx}, {"n_embd", c.n_embd}, {"n_params", c.n_params}, {"size", c.size_bytes},
        {"quantization", c.quantization}, {"architecture", c.architecture}};
    o["architecture"] =
        json::object{{"input_modalities", json::array{"text"}}, {"output_modalities", json::array{"text"}}};
    return o;
}

void list_models(services& s, exchange_ptr x, const captures&) {
    s.engine.models(on_reply<std::vector<model_card>>(x, [x](const std::vector<model_card>& cards) {
        json::array data;
        for (const auto& c : cards) data.push_back(model_json(c));
        x->respond(json_response(json::serialize(json::object{{"object", "list"}, {"data", std::move(data)}})));
    }));
}

void one_model(services& s, exchange_ptr x, const captures& c) {
    s.engine.models(on_reply<std::vector<model_card>>(x, [x, id = c[0]](const std::vector<model_card>& cards) {
        for (const auto& card : cards)
            if (card.id == id) return x->respond(json_response(json::serialize(model_json(card))));
        x->respond(error_response(no_such_model(id)));
    }));
}

void answer_tokens(const exchange_ptr& x, const std::vector<token_piece>& tokens, bool pieces) {
    json::array list;
    for (const auto& t : tokens) {
        if (!pieces) {
            list.push_back(t.id);
            continue;
        }
        json::object o{{"id", t.id}};
        if (to_valid_utf8(t.bytes) == t.bytes) {
            o["piece"] = t.bytes;
        } else {
            json::array bytes;
            for (const unsigned char b : t.bytes) bytes.push_back(b);
            o["piece"] = std::move(bytes);
        }
        list.push_back(std::move(o));
    }
    x->respond(json_response(json::serialize(json::object{{"tokens", std::move(list)}})));
}

result<void> tokenize(services& s, const exchange_ptr& x, const json_object& o) {
    TROUPE_TRY(auto content, o.text(o.has("content") ? "content" : "prompt"));
    if (!content) return fail(errc::invalid_request, "'content' is missing", "content");
    TROUPE_TRY(const auto add, o.boolean("add_special"));
    TROUPE_TRY(const auto parse, o.boolean("parse_special"));
    TROUPE_TRY(const auto pieces, o.boolean("with_pieces"));
    s.engine.tokenize(*std::move(content), add.value_or(false), parse.value_or(true),
        on_reply<std::vector<token_piece>>(
            x, [x, p = pieces.value_or(false)](const std::vector<token_piece>& t) { answer_tokens(x, t, p); }));
    return {};
}

result<void> detokenize(services& s, const exchange_ptr& x, const json_object& o) {
    TROUPE_TRY(auto ids, o.token_ids("tokens", 0));
    if (!ids) return fail(errc::invalid_request, "'tokens' is missing", "tokens");
    s.engine.detokenize(*std::move(ids), on_reply<std::string>(x, [x](const std::string& text) {
        x->respond(json_response(json::serialize(json::object{{"content", to_valid_utf8(text)}})));
    }));
    return {};
}

result<void> apply_template(services& s, const exchange_ptr& x, const json_object& o) {
    TROUPE_TRY(auto messages, read_messages(o));
    std::string kwargs;
    if (const auto e = o.find("chat_template_kwargs")) kwargs = to_json(*e);
    s.engine.apply_template(
        std::move(messages), std::move(kwargs), on_reply<std::string>(x, [x](const std::string& prompt) {
            x->respond(json_response(json::serialize(json::object{{"prompt", to_valid_utf8(prompt)}})));
        }));
    return {};
}

result<void> arm_fault(services& s, const exchange_ptr& x, const json_object& o) {
    fault_spec f;
    TROUPE_TRY(const auto target, o.text("target"));
    f.target = target.value_or("executor");
    TROUPE_TRY(f.kind, o.required_text("kind"));
    constexpr auto most = std::int64_t{1} << 40;
    TROUPE_TRY(const auto after, o.integer("after_steps", 0, most));
    TROUPE_TRY(const auto times, o.integer("times", 1, most));
    TROUPE_TRY(const auto slow, o.integer("slow_ms", 0, 600'000));
    TROUPE_TRY(const auto contains, o.text("request_contains"));
    f.after_steps = after.value_or(0);
    f.times = times.value_or(1);
    f.slow_ms = slow.value_or(0);
    f.request_contains = contains.value_or("");
    if (!f.request_contains.empty() && f.target != "executor")
        return fail(
            errc::unsupported_parameter, "'request_contains' works on faults of the executor only", "request_contains");
    s.engine.arm_fault(std::move(f), on_reply<bool>(x, [x](bool) { x->respond(json_response("{\"armed\":true}")); }));
    return {};
}

using body_route = result<void> (*)(services&, const exchange_ptr&, const json_object&);

handler with_object(body_route use) {
    return [use](services& s, exchange_ptr x, const captures&) {
        auto body = json_body::parse(x->request().body);
        if (!body) return x->respond(error_response(body.error()));
        if (auto r = use(s, x, body->object); !r) x->respond(error_response(r.error()));
    };
}

handler json_text(void (engine_port::*ask)(reply<std::string>)) {
    return [ask](services& s, exchange_ptr x, const captures&) {
        (s.engine.*ask)(
            on_reply<std::string>(x, [x](std::string text) { x->respond(json_response(std::move(text))); }));
    };
}

handler admin_action(const char* action) {
    return [action](services& s, exchange_ptr x, const captures&) {
        s.engine.admin(
            action, on_reply<std::string>(x, [x](std::string text) { x->respond(json_response(std::move(text))); }));
    };
}

}  // namespace

void add_engine_routes(std::vector<route>& routes) {
    routes.push_back({"GET", "/health", &health, true});
    routes.push_back({"GET", "/v1/health", &health, true});
    routes.push_back({"GET", "/health/live",
        [](services&, exchange_ptr x, const captures&) { x->respond(json_response("{\"status\":\"ok\"}")); }, true});
    routes.push_back({"GET", "/metrics", [](services& s, exchange_ptr x, const captures&) {
                          x->respond({200, "text/plain; version=0.0.4; charset=utf-8", s.metrics.text()});
                      }});
    routes.push_back({"GET", "/version", [](services& s, exchange_ptr x, const captures&) {
                          x->respond(json_response(json::serialize(json::object{{"version", s.version}})));
                      }});
    routes.push_back({"GET", "/v1/models", &list_models});
    routes.push_back({"GET", "/v1/models/{}", &one_model});
    routes.push_back({"POST", "/tokenize", with_object(&tokenize)});
    routes.push_back({"POST", "/detokenize", with_object(&detokenize)});
    routes.push_back({"POST", "/apply-template", with_object(&apply_template)});
    routes.push_back({"GET", "/props", json_text(&engine_port::props)});
    routes.push_back({"GET", "/slots", json_text(&engine_port::slots)});
    routes.push_back({"GET", "/admin/state", json_text(&engine_port::state), false, true});
    routes.push_back({"POST", "/admin/faults", with_object(&arm_fault), false, true});
    routes.push_back({"POST", "/admin/executor/restart", admin_action("restart"), false, true});
    routes.push_back({"POST", "/admin/compact", admin_action("compact"), false, true});
    routes.push_back({"POST", "/admin/unload", admin_action("unload"), false, true});
    routes.push_back({"POST", "/admin/drain", admin_action("drain"), false, true});
}

}  // namespace troupe::net
