// The chat page and its files, under a content security policy that runs nothing but our own scripts.
#include "net/assets.hpp"
#include "net/routes.hpp"

namespace troupe::net {
namespace {

// KaTeX sets inline styles; scripts come from this server only, and nothing may frame the page.
constexpr const char* policy =
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

void serve_asset(const exchange_ptr& x, const asset& a) {
    http_response r;
    r.headers = {{"Content-Security-Policy", policy}, {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"}, {"Cache-Control", "no-cache"}, {"ETag", std::string(a.etag)}};
    r.type = a.type;
    if (x->request().header("if-none-match") == a.etag)
        r.status = 304;
    else
        r.body = a.bytes;
    x->respond(std::move(r));
}

}  // namespace

void add_page_routes(std::vector<route>& routes) {
    routes.push_back({"GET", "/",
        [](services& s, exchange_ptr x, const captures&) {
            const auto* page = find_asset("/index.html");
            if (page && x->request().header("accept").find("text/html") != std::string_view::npos)
                return serve_asset(x, *page);
            x->respond({200, "text/plain; charset=utf-8", "Troupe " + s.version + " is running.\n"});
        },
        true});
    const auto by_path = [](services&, exchange_ptr x, const captures&) {
        const auto* a = find_asset(x->request().path);
        if (a) return serve_asset(x, *a);
        x->respond(error_response(fail(errc::not_found, "there is no such file")));
    };
    for (const auto* pattern : {"/web/{}", "/web/{}/{}", "/web/{}/{}/{}"})
        routes.push_back({"GET", pattern, by_path, true});
    routes.push_back({"GET", "/ws",  // an upgrade does not come here
        [](services&, exchange_ptr x, const captures&) {
            auto r = error_response(fail(errc::invalid_request, "/ws is a WebSocket: it needs an upgrade"));
            r.status = 426;
            r.headers.emplace_back("Upgrade", "websocket");
            x->respond(std::move(r));
        },
        true});
    routes.push_back({"GET", "/favicon.ico",
        [](services&, exchange_ptr x, const captures&) {
            if (const auto* a = find_asset("/web/icon.svg")) return serve_asset(x, *a);
            x->respond(error_response(fail(errc::not_found, "there is no such file")));
        },
        true});
}

}  // namespace troupe::net
