#include "net/model_request.hpp"

#include <algorithm>

#include "net/body.hpp"

namespace troupe::net {

void with_model(services& s, const exchange_ptr& x,
    std::function<result<void>(const json_object& body, const model_cards& cards)> use) {
    s.engine.models(on_reply<model_cards>(x, [x, use = std::move(use)](const model_cards& cards) {
        if (cards.empty()) {
            auto e = fail(errc::not_ready, "the model is still loading");
            e.retry_after_ms = 1000;
            return x->respond(error_response(e));
        }
        const auto body = json_body::parse(x->request().body);
        if (!body) return x->respond(error_response(body.error()));
        if (const auto done = use(body->object, cards); !done) x->respond(error_response(done.error()));
    }));
}

result<std::string> model_named(const model_cards& cards, const std::string& name) {
    if (name.empty()) return cards.front().id;
    if (std::none_of(cards.begin(), cards.end(), [&](const model_card& c) { return c.id == name; }))
        return no_such_model(name);
    return name;
}

}  // namespace troupe::net
