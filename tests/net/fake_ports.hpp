// The engine's ports and an HTTP exchange, for tests of the routes: they answer at once and remember what was asked.
#pragma once

#include <string>
#include <vector>

#include "net/routes.hpp"

namespace troupe::net {

struct fake_sessions final : session_port {
    void create(std::string, session_settings, reply<session_view> done) override {
        asked = "create";
        done(session_view{"ses_1"});
    }
    void list(std::int64_t n, std::string, std::string, reply<session_page> done) override {
        asked = "list " + std::to_string(n);
        done(session_page{});
    }
    void get(std::string s, reply<snapshot_event> done) override {
        asked = "get " + s;
        if (s == "none") return done(fail(errc::not_found, "there is no such session"));
        done(snapshot_event{});
    }
    void update(
        std::string s, std::optional<std::string>, std::optional<session_settings>, reply<session_view> done) override {
        asked = "update " + s;
        done(session_view{s});
    }
    void remove(std::string s, reply<bool> done) override {
        asked = "remove " + s;
        done(true);
    }
    void export_json(std::string s, reply<std::string> done) override {
        asked = "export " + s;
        done(std::string("{}"));
    }
    void import_json(std::string, reply<session_view> done) override {
        asked = "import";
        done(session_view{});
    }
    void subscribe(std::string s, std::optional<std::uint64_t>, client_ptr, reply<bool> done) override {
        asked = "subscribe " + s;
        done(true);
    }
    void unsubscribe(std::string, client_ptr, reply<bool> done) override { done(true); }
    void disconnect(client_ptr) override {}
    void message(std::string s, new_message, std::string, client_ptr, std::string, reply<posted> done) override {
        asked = "message " + s;
        done(posted{});
    }
    void regenerate(std::string, std::string, generation_params, std::string, client_ptr, std::string,
        reply<posted> done) override {
        done(posted{});
    }
    void edit(std::string, std::string, std::string, generation_params, std::string, client_ptr, std::string,
        reply<posted> done) override {
        done(posted{});
    }
    void stop(std::string s, reply<bool> done) override {
        asked = "stop " + s;
        done(false);
    }
    void complete(completion_request r, client_ptr client, reply<generation_ticket> done) override {
        asked = "complete " + r.client_key;
        if (accept > 0) {
            --accept;
            asked_for.push_back({r, client});
            return done(generation_ticket{"s", "m", asked_for.size(), "model"});
        }
        auto e = fail(errc::queue_full, "full");
        e.retry_after_ms = 2500;
        done(e);
    }
    void cancel(generation_ticket) override { ++cancelled; }
    std::string asked;
    struct question {
        completion_request request;
        client_ptr client;
    };
    int accept = 0;  ///< completions that are taken; the others find the queue full
    std::vector<question> asked_for;
    int cancelled = 0;
};

struct fake_engine final : engine_port {
    void health(reply<health_report> done) override { done(report); }
    void models(reply<std::vector<model_card>> done) override { done(cards); }
    void tokenize(std::string, bool, bool, reply<std::vector<token_piece>> done) override {
        done(std::vector<token_piece>{{1, "a"}, {2, "\xff"}});
    }
    void detokenize(std::vector<std::int32_t>, reply<std::string> done) override { done(std::string("x")); }
    void apply_template(std::vector<chat_message>, std::string, reply<std::string> done) override {
        done(std::string("p"));
    }
    void state(reply<std::string> done) override { done(std::string("{}")); }
    void props(reply<std::string> done) override { done(std::string("{}")); }
    void slots(reply<std::string> done) override { done(std::string("[]")); }
    void arm_fault(fault_spec, reply<bool> done) override { done(fail(errc::forbidden, "no")); }
    void admin(std::string, reply<std::string> done) override { done(std::string("{}")); }
    void subscribe_health(client_ptr) override {}
    health_report report;
    std::vector<model_card> cards;
};

struct fake_exchange final : exchange {
    const http_request& request() const override { return message; }
    void respond(http_response r) override { answer = std::move(r); }
    std::shared_ptr<byte_stream> open_stream(http_response) override { return nullptr; }
    void on_gone(std::function<void()>) override {}
    void post(std::function<void()> task) override { task(); }
    void after(int, std::function<void()>) override {}
    http_request message;
    http_response answer;
};

}  // namespace troupe::net
