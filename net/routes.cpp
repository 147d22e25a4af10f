#include "net/routes.hpp"

#include <algorithm>

namespace troupe::net {
namespace {

std::vector<std::string_view> segments(std::string_view path) {
    std::vector<std::string_view> parts;
    for (std::size_t at = 0; at < path.size();) {
        const auto end = std::min(path.find('/', at + 1), path.size());
        parts.push_back(path.substr(at, end - at));
        at = end;
    }
    return parts;
}

bool matches(std::string_view pattern, std::string_view path, captures& found) {
    const auto want = segments(pattern), have = segments(path);
    if (want.size() != have.size()) return false;
    found.clear();
    for (std::size_t i = 0; i < want.size(); ++i) {
        if (want[i] == "/{}" && have[i].size() > 1)
            found.emplace_back(have[i].substr(1));
        else if (want[i] != have[i])
            return false;
    }
    return true;
}

}  // namespace

router::router(services s) : services_(std::move(s)) {
    add_engine_routes(routes_);
    add_openai_routes(routes_);
    add_embedding_routes(routes_);
    add_llama_routes(routes_);
    add_session_routes(routes_);
    add_page_routes(routes_);
}

void router::dispatch(const exchange_ptr& x, http_request& request) {
    const route* found = nullptr;
    captures args;
    std::vector<std::string> methods;
    for (const auto& r : routes_) {
        captures here;
        if (!matches(r.pattern, request.path, here)) continue;
        methods.push_back(r.method);
        if (r.method == request.method || (request.method == "HEAD" && r.method == "GET")) {
            found = &r;
            args = std::move(here);
            break;
        }
    }

    auto key = access_rules::bearer(request.header("authorization"));
    if (key.empty()) key = request.header("x-api-key");
    const auto who = services_.access.authenticate(key);
    if (who) {
        request.key = who->name;
        request.admin = who->admin;
    }
    const bool open = found && found->open;
    if (!who && !open)
        return x->respond(
            error_response(fail(errc::unauthorized, "a valid API key is needed: Authorization: Bearer KEY")));
    if (methods.empty())
        return x->respond(error_response(fail(errc::not_found, "there is no " + request.path + " in this version")));
    if (!found) {
        auto response =
            error_response(fail(errc::method_not_allowed, request.method + " is not allowed on " + request.path));
        std::string allow;
        for (const auto& m : methods) allow += (allow.empty() ? "" : ", ") + m;
        response.headers.emplace_back("Allow", allow);
        return x->respond(std::move(response));
    }
    if (found->admin && !request.admin)
        return x->respond(error_response(fail(errc::forbidden, "this needs an administrator's key")));
    found->handle(services_, x, args);
}

std::string client_key_of(const http_request& r, std::string_view user, std::string_view session) {
    if (!r.key.empty()) return r.key;
    if (!user.empty()) return "user:" + std::string(user);
    if (!session.empty()) return "session:" + std::string(session);
    return "peer:" + r.peer;
}

http_response json_response(std::string body, int status) {
    http_response r;
    r.status = status;
    r.body = std::move(body);
    return r;
}

}  // namespace troupe::net
