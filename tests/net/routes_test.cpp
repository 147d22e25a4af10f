// The router against fake ports: authentication, 404, 405 with Allow, and that each route asks the right port.
#include "net/routes.hpp"

#include <gtest/gtest.h>

#include "tests/net/fake_ports.hpp"

namespace troupe::net {
namespace {

struct routes : testing::Test {
    http_response ask(
        std::string method, std::string path, std::string body = "", std::map<std::string, std::string> headers = {}) {
        const auto access = *access_rules::make(settings, false);
        router r(services{sessions, engine, meters, settings, *access, "1.2.3"});
        auto x = std::make_shared<fake_exchange>();
        x->message.method = std::move(method);
        x->message.path = std::move(path);
        x->message.body = std::move(body);
        x->message.headers = std::move(headers);
        x->message.peer = "10.0.0.1";
        r.dispatch(x, x->message);
        return x->answer;
    }
    static std::string header(const http_response& r, const std::string& name) {
        for (const auto& [key, value] : r.headers)
            if (key == name) return value;
        return "";
    }
    config settings;
    metrics meters{""};
    fake_sessions sessions;
    fake_engine engine;
};

TEST_F(routes, unknown_paths_and_methods) {
    EXPECT_EQ(ask("GET", "/nope").status, 404);
    EXPECT_EQ(ask("GET", "/v1/sessions/").status, 404);
    const auto r = ask("PUT", "/v1/sessions/x");
    EXPECT_EQ(r.status, 405);
    EXPECT_EQ(header(r, "Allow"), "GET, PATCH, DELETE");
}

TEST_F(routes, keys_guard_everything_but_health_and_page) {
    settings.api_keys = {"k", "root:admin"};
    EXPECT_EQ(ask("GET", "/v1/models").status, 401);
    EXPECT_EQ(ask("GET", "/nope").status, 401);
    EXPECT_EQ(ask("GET", "/metrics").status, 401);
    EXPECT_EQ(ask("GET", "/health/live").status, 200);
    EXPECT_EQ(ask("GET", "/").status, 200);
    EXPECT_EQ(ask("GET", "/v1/models", "", {{"authorization", "Bearer k"}}).status, 200);
    EXPECT_EQ(ask("GET", "/admin/state", "", {{"authorization", "Bearer k"}}).status, 403);
    EXPECT_EQ(ask("GET", "/admin/state", "", {{"authorization", "Bearer root"}}).status, 200);
}

TEST_F(routes, health_says_what_the_engine_says) {
    const auto loading = ask("GET", "/health");
    EXPECT_EQ(loading.status, 503);
    EXPECT_NE(loading.body.find("Loading model"), std::string::npos);
    EXPECT_FALSE(header(loading, "Retry-After").empty());
    for (const auto* good : {"ok", "degraded", "sleeping"}) {
        engine.report.status = good;
        EXPECT_EQ(ask("GET", "/health").status, 200) << good;
    }
    for (const auto* bad : {"down", "recovering"}) {
        engine.report.status = bad;
        EXPECT_EQ(ask("GET", "/v1/health").status, 503) << bad;
    }
}

TEST_F(routes, completions_need_a_model) {
    const std::string body = R"({"messages":[{"role":"user","content":"x"}]})";
    EXPECT_EQ(ask("POST", "/v1/chat/completions", body).status, 503);
    engine.cards = {model_card{"m"}};
    const auto full = ask("POST", "/v1/chat/completions", body);
    EXPECT_EQ(full.status, 429);
    EXPECT_EQ(header(full, "Retry-After"), "3");
    EXPECT_EQ(sessions.asked, "complete peer:10.0.0.1");
    EXPECT_EQ(
        ask("POST", "/v1/chat/completions", R"({"model":"other","messages":[{"role":"user","content":"x"}]})").status,
        404);
    ask("POST", "/v1/chat/completions", R"({"user":"ann","messages":[{"role":"user","content":"x"}]})");
    EXPECT_EQ(sessions.asked, "complete user:ann");
}

TEST_F(routes, session_routes_ask_the_session_port) {
    ask("GET", "/v1/sessions/abc");
    EXPECT_EQ(sessions.asked, "get abc");
    EXPECT_EQ(ask("GET", "/v1/sessions/none").status, 404);
    EXPECT_EQ(ask("POST", "/v1/sessions", "").status, 201);
    EXPECT_EQ(ask("PATCH", "/v1/sessions/abc", "[]").status, 400);
    ask("DELETE", "/v1/sessions/abc");
    EXPECT_EQ(sessions.asked, "remove abc");
    ask("POST", "/v1/sessions/abc/stop");
    EXPECT_EQ(sessions.asked, "stop abc");
}

TEST_F(routes, pieces_that_are_no_text_are_bytes) {
    EXPECT_EQ(ask("POST", "/tokenize", R"({"content":"x","with_pieces":true})").body,
        R"({"tokens":[{"id":1,"piece":"a"},{"id":2,"piece":[255]}]})");
    EXPECT_EQ(ask("POST", "/tokenize", R"({"content":"x"})").body, R"({"tokens":[1,2]})");
    EXPECT_EQ(ask("POST", "/tokenize", R"({})").status, 400);
}

TEST_F(routes, page_has_a_policy) {
    const auto r = ask("GET", "/", "", {{"accept", "text/html"}});
    EXPECT_EQ(r.type, "text/html; charset=utf-8");
    EXPECT_NE(header(r, "Content-Security-Policy").find("script-src 'self'"), std::string::npos);
    EXPECT_EQ(ask("GET", "/web/app.js").type, "text/javascript; charset=utf-8");
    EXPECT_EQ(ask("GET", "/web/none.js").status, 404);
    EXPECT_EQ(
        ask("GET", "/web/app.js", "", {{"if-none-match", header(ask("GET", "/web/app.js"), "ETag")}}).status, 304);
}

}  // namespace
}  // namespace troupe::net
