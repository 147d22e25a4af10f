// /v1/sessions...: the stored conversations over plain HTTP; answers stream as the events of the WebSocket.
#include <charconv>

#include <boost/json.hpp>

#include "core/ids.hpp"
#include "net/body.hpp"
#include "net/event_json.hpp"
#include "net/routes.hpp"
#include "net/settings_in.hpp"
#include "net/sse_client.hpp"

namespace troupe::net {
namespace json = boost::json;
namespace {

/// Follows one session as server-sent events: all of it, or one answer.
class session_stream final : public sse_client {
 public:
    using sse_client::sse_client;

    /// Everything from `from` on, until the client goes.
    void follow(services& s, const std::string& session, std::optional<std::uint64_t> from) {
        const auto self = shared();
        exchange_->on_gone([self, &s] { s.sessions.disconnect(self); });
        s.sessions.subscribe(session, from, self, on_reply<bool>(exchange_, [self](bool) { self->start(); }));
    }

    /// The answer to one message; with `whole`, one JSON at the end.
    void answer(services& s, const std::string& session, new_message m, std::string client_key, bool whole) {
        const auto self = shared();
        whole_ = whole;
        one_answer_ = true;
        exchange_->on_gone([self, &s] { s.sessions.disconnect(self); });
        // Subscribed beyond the end: live events only, no replay; the snapshot that comes first is not part of the
        // answer.
        s.sessions.subscribe(
            session, std::nullopt, self, on_reply<bool>(exchange_, [self, &s, session, m, client_key](bool) {
                s.sessions.message(session, m, client_key, self, make_id("req_"), [self, &s](result<posted> r) {
                    self->exchange_->post(
                        [self, &s, r = std::make_shared<result<posted>>(std::move(r))] { self->posted_(s, *r); });
                });
            }));
        services_ = &s;
    }

 private:
    std::shared_ptr<session_stream> shared() { return std::static_pointer_cast<session_stream>(shared_from_this()); }

    void start() {
        open();
        started_ = true;
        for (const auto& [e, id] : early_) emit(e, id);
        early_.clear();
    }

    void posted_(services& s, const result<posted>& r) {
        if (!r) {
            ended_ = true;
            s.sessions.disconnect(shared());
            return exchange_->respond(error_response(r.error()));
        }
        message_ = r->assistant_message;
        if (r->duplicate && (!whole_ || r->finished)) {
            ended_ = true;
            s.sessions.disconnect(shared());
            return exchange_->respond(whole_ ? repeated(*r->finished) : json_response("{\"duplicate\":true}"));
        }
        if (whole_) {
            started_ = true;
            for (const auto& [e, id] : early_) emit(e, id);
            early_.clear();
        } else {
            start();
        }
    }

    void on_event(const event& e, const std::string& request_id) override {
        if (ended_) return;
        if (!started_)
            early_.emplace_back(e, request_id);
        else
            emit(e, request_id);
    }

    void emit(const event& e, const std::string& request_id) {
        if (ended_) return;
        if (const auto* snapshot = std::get_if<snapshot_event>(&e.payload); snapshot && one_answer_) {
            // Of a repeated message whose answer is being made: what it says so far.
            if (snapshot->generating && snapshot->generating->message == message_) text_ = snapshot->generating->text;
            return;
        }
        if (!whole_) write("data: " + event_json(e, request_id) + "\n\n");
        if (const auto* d = std::get_if<delta_event>(&e.payload); d && d->message == message_) text_ += d->text;
        if (!one_answer_) {
            if (std::holds_alternative<session_deleted>(e.payload)) end();
            return;
        }
        if (const auto* d = std::get_if<generation_done>(&e.payload); d && d->message == message_) {
            if (whole_) exchange_->respond(json_response(whole_json(*d)));
            end();
        } else if (const auto* f = std::get_if<generation_error>(&e.payload); f && f->message == message_) {
            if (whole_) exchange_->respond(error_response(f->err));
            end();
        } else if (std::holds_alternative<session_deleted>(e.payload)) {
            if (whole_) exchange_->respond(error_response(fail(errc::not_found, "the session was deleted")));
            end();
        }
    }

    /// The same message again: the answer that was made for it.
    http_response repeated(const finished_answer& a) {
        if (a.err) return error_response(*a.err);
        text_ = a.text;
        return json_response(whole_json(a.done));
    }

    std::string whole_json(const generation_done& d) const {
        json::object message{{"id", message_}, {"role", "assistant"}, {"content", text_}};
        json::object o{{"message", std::move(message)}, {"usage", usage_json(d.usage)},
            {"timings", timings_json(d.timings, d.usage)}, {"finish_reason", d.finish_reason}};
        if (!d.stopped_by.empty()) o["stopped_by"] = d.stopped_by;
        return json::serialize(o);
    }

    void end() {
        ended_ = true;
        finish();
        if (services_) services_->sessions.disconnect(shared());
    }

    services* services_ = nullptr;
    std::string message_, text_;
    std::vector<std::pair<event, std::string>> early_;
    bool whole_ = false, one_answer_ = false, started_ = false, ended_ = false;
};

/// Runs `use(cards' n_vocab, body)` with the body as a JSON object (an empty body is {}).
template <class F> void with_body(services& s, const exchange_ptr& x, F use) {
    s.engine.models(on_reply<std::vector<model_card>>(x, [x, use](const std::vector<model_card>& cards) {
        const auto& text = x->request().body;
        auto body = json_body::parse(text.empty() ? std::string_view("{}") : std::string_view(text));
        if (!body) return x->respond(error_response(body.error()));
        if (auto r = use(body->object, cards.empty() ? 0 : cards.front().n_vocab); !r)
            x->respond(error_response(r.error()));
    }));
}

void answer_session(const exchange_ptr& x, const session_view& v, int status = 200) {
    x->respond(json_response(json::serialize(session_json(v)), status));
}

void list_sessions(services& s, exchange_ptr x, const captures&) {
    const auto& q = x->request().query;
    const auto get = [&](const char* name) {
        const auto it = q.find(name);
        return it == q.end() ? std::string() : it->second;
    };
    std::int64_t limit = 50;
    if (const auto text = get("limit"); !text.empty()) {
        const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), limit);
        if (ec != std::errc{} || end != text.data() + text.size() || limit < 1 || limit > 1000)
            return x->respond(
                error_response(fail(errc::invalid_request, "'limit' must be an integer from 1 to 1000", "limit")));
    }
    s.sessions.list(limit, get("after"), get("search"), on_reply<session_page>(x, [x](const session_page& page) {
        json::array list;
        for (const auto& v : page.sessions) list.push_back(session_json(v));
        x->respond(json_response(
            json::serialize(json::object{{"object", "list"}, {"data", std::move(list)}, {"has_more", page.has_more}})));
    }));
}

void create_session(services& s, exchange_ptr x, const captures&) {
    with_body(s, x, [&s, x](const json_object& o, std::int64_t n_vocab) -> result<void> {
        TROUPE_TRY(auto title, read_title(o));
        session_settings settings;
        if (const auto nested = o.find("settings")) {
            TROUPE_TRY(const auto inner, json_object::from(*nested, "'settings'"));
            TROUPE_TRY(settings, read_settings(inner, n_vocab));
        }
        s.sessions.create(title.value_or(""), std::move(settings),
            on_reply<session_view>(x, [x](const session_view& v) { answer_session(x, v, 201); }));
        return {};
    });
}

void update_session(services& s, exchange_ptr x, const captures& c) {
    with_body(s, x, [&s, x, id = c[0]](const json_object& o, std::int64_t n_vocab) -> result<void> {
        TROUPE_TRY(auto title, read_title(o));
        std::optional<session_settings> settings;
        if (const auto nested = o.find("settings")) {
            TROUPE_TRY(const auto inner, json_object::from(*nested, "'settings'"));
            TROUPE_TRY(settings, read_settings(inner, n_vocab));
        }
        s.sessions.update(id, std::move(title), std::move(settings),
            on_reply<session_view>(x, [x](const session_view& v) { answer_session(x, v); }));
        return {};
    });
}

/// The document goes on as it is; its sampling settings obey the ranges every request does.
void import_session(services& s, exchange_ptr x, const captures&) {
    with_body(s, x, [&s, x](const json_object& o, std::int64_t n_vocab) -> result<void> {
        if (const auto nested = o.find("settings")) {
            TROUPE_TRY(const auto settings, json_object::from(*nested, "'settings'"));
            TROUPE_TRYV(read_settings(settings, n_vocab));
        }
        s.sessions.import_json(
            x->request().body, on_reply<session_view>(x, [x](const session_view& v) { answer_session(x, v, 201); }));
        return {};
    });
}

void post_message(services& s, exchange_ptr x, const captures& c) {
    with_body(s, x, [&s, x, id = c[0]](const json_object& o, std::int64_t n_vocab) -> result<void> {
        TROUPE_TRY(auto m, read_message(o, n_vocab));
        const auto& q = x->request().query;
        const auto wait = q.find("wait");
        const bool whole = wait != q.end() && wait->second != "false" && wait->second != "0";
        std::make_shared<session_stream>(x, s.metrics)
            ->answer(s, id, std::move(m), client_key_of(x->request(), "", id), whole);
        return {};
    });
}

void follow_events(services& s, exchange_ptr x, const captures& c) {
    if (x->request().method == "HEAD")
        return s.sessions.get(c[0], on_reply<snapshot_event>(x, [x](const snapshot_event&) {
            x->respond({200, "text/event-stream", ""});
        }));
    std::optional<std::uint64_t> from;
    const auto& q = x->request().query;
    std::string text;
    if (const auto it = q.find("from"); it != q.end()) text = it->second;
    if (text.empty()) text = x->request().header("last-event-id");
    if (!text.empty()) {
        std::uint64_t seq = 0;
        const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), seq);
        if (ec != std::errc{} || end != text.data() + text.size())
            return x->respond(error_response(fail(errc::invalid_request, "'from' must be a sequence number", "from")));
        from = seq;
    }
    std::make_shared<session_stream>(x, s.metrics)->follow(s, c[0], from);
}

}  // namespace

void add_session_routes(std::vector<route>& routes) {
    routes.push_back({"GET", "/v1/sessions", &list_sessions});
    routes.push_back({"POST", "/v1/sessions", &create_session});
    routes.push_back({"POST", "/v1/sessions/import", &import_session});
    routes.push_back({"GET", "/v1/sessions/{}", [](services& s, exchange_ptr x, const captures& c) {
                          s.sessions.get(c[0], on_reply<snapshot_event>(x, [x](const snapshot_event& v) {
                              x->respond(json_response(json::serialize(snapshot_json(v))));
                          }));
                      }});
    routes.push_back({"PATCH", "/v1/sessions/{}", &update_session});
    routes.push_back({"DELETE", "/v1/sessions/{}", [](services& s, exchange_ptr x, const captures& c) {
                          s.sessions.remove(c[0], on_reply<bool>(x, [x, id = c[0]](bool) {
                              x->respond(json_response(json::serialize(json::object{{"id", id}, {"deleted", true}})));
                          }));
                      }});
    routes.push_back({"POST", "/v1/sessions/{}/messages", &post_message});
    routes.push_back({"POST", "/v1/sessions/{}/stop", [](services& s, exchange_ptr x, const captures& c) {
                          s.sessions.stop(c[0], on_reply<bool>(x, [x](bool was) {
                              x->respond(json_response(was ? "{\"stopped\":true}" : "{\"stopped\":false}"));
                          }));
                      }});
    routes.push_back({"GET", "/v1/sessions/{}/events", &follow_events});
    routes.push_back({"GET", "/v1/sessions/{}/export", [](services& s, exchange_ptr x, const captures& c) {
                          s.sessions.export_json(c[0], on_reply<std::string>(x, [x](std::string text) {
                              x->respond(json_response(std::move(text)));
                          }));
                      }});
}

}  // namespace troupe::net
