// /v1/embeddings: the model's last hidden states, pooled and normalized, for one input or many.
#include <boost/json.hpp>
#include <openssl/evp.h>

#include "net/event_json.hpp"
#include "net/generation_group.hpp"
#include "net/model_request.hpp"
#include "net/params.hpp"
#include "net/prompts.hpp"

namespace troupe::net {
namespace json = boost::json;
namespace {

/// Little-endian float32, as OpenAI's clients decode it.
std::string base64_of(const std::vector<float>& values) {
    const std::size_t bytes = values.size() * sizeof(float);
    std::string text((bytes + 2) / 3 * 4 + 1, '\0');  // the function ends it with a zero byte
    const int n = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
        reinterpret_cast<const unsigned char*>(values.data()), static_cast<int>(bytes));
    text.resize(static_cast<std::size_t>(n));
    return text;
}

class embedding_answer : public std::enable_shared_from_this<embedding_answer> {
 public:
    embedding_answer(exchange_ptr x, std::string model, bool base64, std::size_t n)
        : exchange_(std::move(x)), model_(std::move(model)), base64_(base64), vectors_(n) {}

    void run(services& s, std::vector<completion_request> parts) {
        const auto self = shared_from_this();
        group_ = std::make_shared<generation_group>(exchange_, s, std::move(parts),
            generation_group::handlers{[] {}, [self](std::size_t part, const event& e) { self->handle(part, e); },
                [self](const error& e) { self->exchange_->respond(error_response(e)); }});
        group_->run();
    }

 private:
    void handle(std::size_t part, const event& e) {
        if (const auto* ready = std::get_if<embedding_ready>(&e.payload)) vectors_[part] = ready->values;
        const auto* done = std::get_if<generation_done>(&e.payload);
        if (!done) return;
        prompt_tokens_ += done->usage.prompt_tokens;
        if (group_->all_done()) exchange_->respond(json_response(whole()));
    }

    std::string whole() const {
        json::array data;
        for (std::size_t i = 0; i < vectors_.size(); ++i) {
            json::object o{{"object", "embedding"}, {"index", i}};
            if (base64_)
                o["embedding"] = base64_of(vectors_[i]);
            else
                o["embedding"] = json::array(vectors_[i].begin(), vectors_[i].end());
            data.push_back(std::move(o));
        }
        return json::serialize(json::object{{"object", "list"}, {"data", std::move(data)}, {"model", model_},
            {"usage", {{"prompt_tokens", prompt_tokens_}, {"total_tokens", prompt_tokens_}}}});
    }

    exchange_ptr exchange_;
    std::string model_;
    bool base64_;
    std::vector<std::vector<float>> vectors_;
    std::int64_t prompt_tokens_ = 0;
    std::shared_ptr<generation_group> group_;
};

result<pooling> read_pooling(const json_object& o, const std::string& usual) {
    TROUPE_TRY(const auto name, o.text("pooling"));
    const std::string chosen = name.value_or(usual);
    if (chosen == "mean") return pooling::mean;
    if (chosen == "last") return pooling::last;
    return fail(errc::invalid_request, "'pooling' must be mean or last", "pooling");
}

result<void> embed(services& s, const exchange_ptr& x, const json_object& o, const model_cards& cards) {
    TROUPE_TRYV(check_ignored(o));
    completion_request request;
    request.what = completion_request::kind::embedding;
    request.prompt_name = "input";
    TROUPE_TRY(const auto model, o.text("model"));
    TROUPE_TRY(request.model, model_named(cards, model.value_or("")));
    TROUPE_TRY(const auto user, o.text("user"));
    request.client_key = client_key_of(x->request(), user.value_or(""), "");
    TROUPE_TRY(request.pool, read_pooling(o, s.settings.pooling));
    TROUPE_TRY(const auto format, o.text("encoding_format"));
    if (format && *format != "float" && *format != "base64")
        return fail(errc::invalid_request, "'encoding_format' must be float or base64", "encoding_format");
    if (o.has("dimensions"))
        return fail(errc::unsupported_parameter, "'dimensions' is not available: the model's vectors have one length",
            "dimensions");
    TROUPE_TRY(auto prompts, read_prompts(o, "input", cards.front().n_vocab));
    for (const auto& p : prompts)
        if (const auto* text = std::get_if<std::string>(&p.front()); text && p.size() == 1 && text->empty())
            return fail(errc::invalid_request, "'input' must not be empty", "input");
    const auto n = prompts.size();
    const auto answer = std::make_shared<embedding_answer>(x, request.model, format == "base64", n);
    std::vector<completion_request> requests(n, request);
    join_prompts(s, x, std::move(prompts), std::move(requests),
        [answer, &s](std::vector<completion_request> ready) { answer->run(s, std::move(ready)); });
    return {};
}

}  // namespace

void add_embedding_routes(std::vector<route>& routes) {
    routes.push_back({"POST", "/v1/embeddings", [](services& s, exchange_ptr x, const captures&) {
                          with_model(s, x, [&s, x](const json_object& body, const model_cards& cards) {
                              return embed(s, x, body, cards);
                          });
                      }});
}

}  // namespace troupe::net
