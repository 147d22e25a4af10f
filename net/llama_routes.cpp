// llama-server's /completion: one prompt or many, streamed or in one piece.
#include <chrono>

#include <boost/json.hpp>

#include "net/generation_group.hpp"
#include "net/llama_wire.hpp"
#include "net/model_request.hpp"
#include "net/sse_client.hpp"

namespace troupe::net {
namespace json = boost::json;
namespace {

using clock = std::chrono::steady_clock;

class llama_answer final : public sse_writer {
 public:
    llama_answer(exchange_ptr x, services& s, llama_wire wire, const std::vector<completion_request>& parts)
        : sse_writer(std::move(x), s.metrics), services_(s), wire_(std::move(wire)), finals_(parts.size()),
          first_token_(parts.size()), timed_out_(parts.size()) {
        for (std::size_t i = 0; i < parts.size(); ++i)
            writers_.emplace_back(wire_, wire_.request.model, s.settings.defaults, i, parts.size() > 1);
    }

    /// Shows the prompts as text first: those given as ids are looked up one after the other.
    void run(std::vector<completion_request> parts, std::size_t next = 0) {
        const auto self = std::static_pointer_cast<llama_answer>(shared_from_this());
        for (; next < parts.size(); ++next) {
            if (parts[next].prompt_ids) break;
            writers_[next].set_prompt(parts[next].prompt);
        }
        if (next == parts.size()) return start(std::move(parts));
        auto ids = *parts[next].prompt_ids;
        services_.engine.detokenize(
            std::move(ids), on_reply<std::string>(exchange_, [self, parts, next](std::string text) {
                self->writers_[next].set_prompt(std::move(text));
                self->run(parts, next + 1);
            }));
    }

 private:
    void start(std::vector<completion_request> parts) {
        const auto self = std::static_pointer_cast<llama_answer>(shared_from_this());
        group_ = std::make_shared<generation_group>(exchange_, services_, std::move(parts),
            generation_group::handlers{[self] {
                                           if (self->wire_.stream) self->open();
                                       },
                [self](std::size_t part, const event& e) { self->handle(part, e); },
                [self](const error& e) { self->fail_with(e); }});
        group_->run();
    }

    void handle(std::size_t part, const event& e) {
        if (const auto* d = std::get_if<delta_event>(&e.payload)) {
            auto o = writers_[part].partial(*d);
            if (wire_.stream) frame(o);
            check_time(part);
        } else if (const auto* p = std::get_if<generation_progress>(&e.payload)) {
            if (wire_.stream && wire_.return_progress) frame(writers_[part].progress(*p));
        } else if (const auto* done = std::get_if<generation_done>(&e.payload)) {
            on_done(part, *done);
        } else if (wire_.stream && std::holds_alternative<generation_paused>(e.payload)) {
            write(": paused\n\n");
        } else if (wire_.stream && std::holds_alternative<generation_resumed>(e.payload)) {
            write(": resumed\n\n");
        }
    }

    void check_time(std::size_t part) {
        if (wire_.t_max_predict_ms == 0 || timed_out_[part]) return;
        auto& first = first_token_[part];
        if (first == clock::time_point{}) first = clock::now();
        if (!writers_[part].has_new_line()) return;
        if (clock::now() - first < std::chrono::milliseconds(wire_.t_max_predict_ms)) return;
        timed_out_[part] = true;
        group_->stop(part);
    }

    void on_done(std::size_t part, generation_done d) {
        if (timed_out_[part] && d.stop_type.empty()) d.stop_type = "limit";
        auto final = writers_[part].final(d);
        if (wire_.stream)
            frame(final);
        else
            finals_[part] = std::move(final);
        if (!group_->all_done()) return;
        if (wire_.stream) return finish();
        exchange_->respond(
            json_response(finals_.size() == 1 ? json::serialize(finals_[0])
                                              : json::serialize(json::array(finals_.begin(), finals_.end()))));
    }

    void frame(const json::value& v) { write("data: " + json::serialize(v) + "\n\n"); }

    services& services_;
    llama_wire wire_;
    std::vector<llama_writer> writers_;
    std::vector<json::value> finals_;
    std::vector<clock::time_point> first_token_;
    std::vector<bool> timed_out_;
    std::shared_ptr<generation_group> group_;
};

result<void> complete(services& s, const exchange_ptr& x, const json_object& body, const model_cards& cards) {
    TROUPE_TRY(auto wire, read_llama_request(body, cards.front().n_vocab));
    TROUPE_TRY(wire.request.model, model_named(cards, wire.request.model));
    wire.request.client_key = client_key_of(x->request(), "", "");
    auto spread = parts_of(wire.request, wire.prompts, wire.n);
    const auto answer = std::make_shared<llama_answer>(x, s, std::move(wire), spread.requests);
    join_prompts(s, x, std::move(spread.prompts), std::move(spread.requests),
        [answer](std::vector<completion_request> ready) { answer->run(std::move(ready)); });
    return {};
}

}  // namespace

void add_llama_routes(std::vector<route>& routes) {
    for (const char* path : {"/completion", "/completions"})
        routes.push_back({"POST", path, [](services& s, exchange_ptr x, const captures&) {
                              with_model(s, x, [&s, x](const json_object& body, const model_cards& cards) {
                                  return complete(s, x, body, cards);
                              });
                          }});
}

}  // namespace troupe::net
