// /v1/chat/completions and /v1/completions: streamed or in one piece, cancelled when the client goes.
#include <fmt/format.h>

#include "net/generation_group.hpp"
#include "net/model_request.hpp"
#include "net/openai_wire.hpp"
#include "net/routes.hpp"
#include "net/sse_client.hpp"

namespace troupe::net {
namespace {

/// One OpenAI answer: turns the events of its parts into chunks or collects them.
class completion_answer final : public sse_writer {
 public:
    completion_answer(exchange_ptr x, services& s, completion_wire wire, std::string model)
        : sse_writer(std::move(x), s.metrics), services_(s), wire_(std::move(wire)), writer_(wire_, std::move(model)) {}

    void run(std::vector<completion_request> parts) {
        const auto self = std::static_pointer_cast<completion_answer>(shared_from_this());
        group_ = std::make_shared<generation_group>(exchange_, services_, std::move(parts),
            generation_group::handlers{[self] {
                                           if (self->wire_.stream) self->open();
                                       },
                [self](std::size_t part, const event& e) { self->handle(part, e); },
                [self](const error& e) { self->failed(e); }});
        group_->run();
    }

 private:
    void handle(std::size_t part, const event& e) {
        if (const auto* d = std::get_if<delta_event>(&e.payload)) {
            if (wire_.stream)
                write(writer_.chunk(part, *d));
            else
                writer_.collect(part, *d);
        } else if (const auto* done = std::get_if<generation_done>(&e.payload)) {
            on_done(part, *done);
        } else if (wire_.stream) {
            write(note(part, e));
        }
    }

    /// What a stream says besides its text.
    std::string note(std::size_t part, const event& e) {
        if (const auto* q = std::get_if<generation_queued>(&e.payload))
            return fmt::format(": queued {}\n\n", q->position);
        if (std::get_if<generation_paused>(&e.payload)) return ": paused\n\n";
        if (std::get_if<generation_resumed>(&e.payload)) return ": resumed\n\n";
        const auto* p = std::get_if<generation_progress>(&e.payload);
        if (!p) return {};
        return wire_.return_progress ? writer_.progress(part, *p)
                                     : fmt::format(": prompt {}/{}\n\n", p->processed, p->total);
    }

    void on_done(std::size_t part, const generation_done& d) {
        if (wire_.stream)
            write(writer_.finish(part, d));
        else
            writer_.done(part, d);
        if (!group_->all_done()) return;
        if (wire_.stream) {
            write(writer_.end());
            finish();
        } else {
            exchange_->respond(json_response(writer_.whole()));
        }
    }

    void failed(error e) {
        if (e.code == errc::not_found && e.param == "session") e.param = "session_id";
        fail_with(e);
    }

    services& services_;
    completion_wire wire_;
    completion_writer writer_;
    std::shared_ptr<generation_group> group_;
};

using reader = result<completion_wire> (*)(const json_object&, std::int64_t);

void complete(services& s, const exchange_ptr& x, reader read) {
    with_model(s, x, [&s, x, read](const json_object& body, const model_cards& cards) -> result<void> {
        const auto& request = x->request();
        if (!request.header("x-conversation-id").empty())
            return fail(errc::unsupported_parameter,
                "X-Conversation-Id is not available in this version; use session_id", "X-Conversation-Id");
        TROUPE_TRY(auto wire, read(body, cards.front().n_vocab));
        TROUPE_TRY(wire.request.model, model_named(cards, wire.request.model));
        wire.request.client_key = client_key_of(request, wire.user, wire.request.session_id);
        auto parts = parts_of(wire.request, wire.prompts, wire.n);
        auto model = wire.request.model;
        const auto answer = std::make_shared<completion_answer>(x, s, std::move(wire), std::move(model));
        join_prompts(s, x, std::move(parts.prompts), std::move(parts.requests),
            [answer](std::vector<completion_request> ready) { answer->run(std::move(ready)); });
        return {};
    });
}

}  // namespace

void add_openai_routes(std::vector<route>& routes) {
    routes.push_back({"POST", "/v1/chat/completions",
        [](services& s, exchange_ptr x, const captures&) { complete(s, x, &read_chat_request); }});
    routes.push_back({"POST", "/v1/completions",
        [](services& s, exchange_ptr x, const captures&) { complete(s, x, &read_text_request); }});
}

}  // namespace troupe::net
