#include "net/http_types.hpp"

#include <boost/json.hpp>

#include "core/utf8.hpp"
#include "net/event_json.hpp"

namespace troupe::net {

std::string error_object(const error& e) {
    boost::json::object o;
    o["message"] = to_valid_utf8(e.message);
    o["type"] = info(e.code).openai_type;
    o["param"] = e.param.empty() ? boost::json::value(nullptr) : boost::json::value(to_valid_utf8(e.param));
    o["code"] = info(e.code).name;
    if (e.code == errc::context_length_exceeded) {
        o["n_prompt_tokens"] = e.n_prompt_tokens;
        o["n_ctx"] = e.n_ctx;
    }
    return boost::json::serialize(o);
}

namespace {

std::string error_body(const error& e) { return "{\"error\":" + error_object(e) + "}"; }

}  // namespace

std::string error_frames(const error& e) { return "data: " + error_body(e) + "\n\ndata: [DONE]\n\n"; }

http_response error_response(const error& e) {
    http_response r;
    r.status = info(e.code).http_status;
    r.body = error_body(e);
    const auto wait_ms = e.retry_after_ms > 0 ? e.retry_after_ms : (r.status == 503 ? 1000 : 0);
    if (wait_ms > 0) r.headers.emplace_back("Retry-After", std::to_string((wait_ms + 999) / 1000));
    return r;
}

}  // namespace troupe::net
