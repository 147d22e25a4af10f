// /v1/chat/completions and /v1/completions: streamed or in one piece, cancelled when the client goes.
#include <fmt/format.h>

#include "net/body.hpp"
#include "net/openai_wire.hpp"
#include "net/routes.hpp"
#include "net/sse_client.hpp"

namespace troupe::net {
namespace {

/// One OpenAI answer: waits for the ticket, then turns events into chunks or collects them.
class completion_client final : public sse_client {
 public:
    completion_client(exchange_ptr x, services& s, completion_wire wire, std::string model)
        : sse_client(std::move(x), s.metrics), services_(s), wire_(std::move(wire)), writer_(wire_, std::move(model)) {}

    void run() {
        const auto self = std::static_pointer_cast<completion_client>(shared_from_this());
        exchange_->on_gone([self] { self->gone(); });
        services_.sessions.complete(wire_.request, self, [self](result<generation_ticket> r) {
            self->exchange_->post(
                [self, r = std::make_shared<result<generation_ticket>>(std::move(r))] { self->started(*r); });
        });
    }

 private:
    void started(const result<generation_ticket>& ticket) {
        if (!ticket) {
            if (!ended_) exchange_->respond(error_response(ticket.error()));
            ended_ = true;
            return;
        }
        ticket_ = *ticket;
        if (gone_) return services_.sessions.cancel(*ticket_);
        if (wire_.stream) open();
        for (const auto& e : early_) handle(e);
        early_.clear();
    }

    void gone() {
        gone_ = true;
        if (ticket_ && !ended_) services_.sessions.cancel(*ticket_);
        ended_ = true;
    }

    /// Events may overtake the ticket: they come from another thread.
    void on_event(const event& e, const std::string&) override {
        if (ended_) return;
        if (!ticket_)
            early_.push_back(e);
        else
            handle(e);
    }

    void handle(const event& e) {
        if (ended_) return;
        if (const auto* d = std::get_if<delta_event>(&e.payload)) return on_delta(*d);
        if (const auto* d = std::get_if<generation_done>(&e.payload)) return on_done(*d);
        if (const auto* f = std::get_if<generation_error>(&e.payload)) return on_failure(f->err);
        if (!wire_.stream) return;
        if (const auto* q = std::get_if<generation_queued>(&e.payload))
            write(fmt::format(": queued {}\n\n", q->position));
        if (std::get_if<generation_paused>(&e.payload)) write(": paused\n\n");
        if (std::get_if<generation_resumed>(&e.payload)) write(": resumed\n\n");
        if (const auto* p = std::get_if<generation_progress>(&e.payload)) {
            if (wire_.return_progress)
                write(role_chunk() + writer_.progress(*p));
            else
                write(fmt::format(": prompt {}/{}\n\n", p->processed, p->total));
        }
    }

    std::string role_chunk() {
        if (role_sent_) return {};
        role_sent_ = true;
        return writer_.start();
    }

    void on_delta(const delta_event& d) {
        if (wire_.stream)
            write(role_chunk() + writer_.chunk(d));
        else
            writer_.collect(d);
    }

    void on_done(const generation_done& d) {
        ended_ = true;
        if (wire_.stream) {
            write(role_chunk() + writer_.finish(d));
            finish();
        } else {
            exchange_->respond(json_response(writer_.whole(d)));
        }
    }

    void on_failure(const error& err) {
        ended_ = true;
        if (wire_.stream) {
            write(completion_writer::failure(err));
            finish();
        } else {
            exchange_->respond(error_response(err));
        }
    }

    services& services_;
    completion_wire wire_;
    completion_writer writer_;
    std::optional<generation_ticket> ticket_;
    std::vector<event> early_;
    bool role_sent_ = false, gone_ = false, ended_ = false;
};

using reader = result<completion_wire> (*)(const json_object&, std::int64_t);

void complete(services& s, const exchange_ptr& x, reader read) {
    s.engine.models(on_reply<std::vector<model_card>>(x, [&s, x, read](const std::vector<model_card>& cards) {
        if (cards.empty()) {
            auto e = fail(errc::not_ready, "the model is still loading");
            e.retry_after_ms = 1000;
            return x->respond(error_response(e));
        }
        const auto& request = x->request();
        if (!request.header("x-conversation-id").empty())
            return x->respond(error_response(fail(errc::unsupported_parameter,
                "X-Conversation-Id is not available in this version; use session_id", "X-Conversation-Id")));
        auto body = json_body::parse(request.body);
        if (!body) return x->respond(error_response(body.error()));
        auto wire = read(body->object, cards.front().n_vocab);
        if (!wire) return x->respond(error_response(wire.error()));
        auto model = wire->request.model.empty() ? cards.front().id : wire->request.model;
        if (std::none_of(cards.begin(), cards.end(), [&](const model_card& c) { return c.id == model; }))
            return x->respond(error_response(
                fail(errc::model_not_found, "there is no model '" + model + "'; /v1/models lists them", "model")));
        wire->request.model = model;
        wire->request.client_key = client_key_of(request, wire->user, wire->request.session_id);
        std::make_shared<completion_client>(x, s, *std::move(wire), model)->run();
    }));
}

}  // namespace

void add_openai_routes(std::vector<route>& routes) {
    routes.push_back({"POST", "/v1/chat/completions",
        [](services& s, exchange_ptr x, const captures&) { complete(s, x, &read_chat_request); }});
    routes.push_back({"POST", "/v1/completions",
        [](services& s, exchange_ptr x, const captures&) { complete(s, x, &read_text_request); }});
}

}  // namespace troupe::net
