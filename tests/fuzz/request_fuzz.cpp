// Fuzz entry of what clients send: "METHOD TARGET\nbody" is an HTTP request through the router and its routes, anything
// that begins with '{' a WebSocket frame. Every one is answered, and every refusal says why.
#include <cstddef>
#include <cstdint>

#include "core/check.hpp"
#include "net/client_frames.hpp"
#include "net/url.hpp"
#include "tests/net/fake_ports.hpp"

namespace {

using namespace troupe;
using namespace troupe::net;

constexpr std::int64_t n_vocab = 320;

void read_frame(std::string_view text) {
    const auto parsed = parse_client_frame(text, n_vocab);
    if (parsed.frame) return;
    CHECK(!parsed.frame.error().message.empty());
    CHECK(!error_frame(parsed.frame.error(), parsed.request_id).empty());
}

/// Streams are taken and dropped.
struct sink final : byte_stream {
    void write(std::string) override {}
    void finish() override {}
    void abort() override {}
    std::size_t queued() const override { return 0; }
};

struct fuzz_exchange final : exchange {
    const http_request& request() const override { return message; }
    void respond(http_response r) override {
        CHECK(!answered && r.status >= 200 && r.status < 600);
        CHECK(r.status < 400 || !r.body.empty());
        answered = true;
    }
    std::shared_ptr<byte_stream> open_stream(http_response r) override {
        CHECK(!answered && r.status == 200);
        answered = true;
        return std::make_shared<sink>();
    }
    void on_gone(std::function<void()>) override {}
    void post(std::function<void()> task) override { task(); }
    void after(int, std::function<void()>) override {}
    http_request message;
    bool answered = false;
};

void ask(std::string_view head, std::string_view body) {
    static config settings;
    static metrics meters{""};
    static const auto access = *access_rules::make(settings, false);
    fake_sessions sessions;
    fake_engine engine;
    engine.cards = {model_card{"m"}};
    engine.cards.front().n_vocab = n_vocab;
    router r(services{sessions, engine, meters, settings, *access, "1.2.3"});

    auto x = std::make_shared<fuzz_exchange>();
    const auto space = head.find(' ');
    x->message.method = head.substr(0, space);
    auto target = split_target(space == head.npos ? std::string_view("/") : head.substr(space + 1));
    x->message.path = std::move(target.path);
    x->message.query = std::move(target.query);
    x->message.body = body;
    x->message.peer = "10.0.0.1";
    r.dispatch(x, x->message);
    // What a port has taken is answered later, by the engine.
    CHECK(x->answered || !sessions.asked.empty() || !sessions.asked_for.empty());
}

}  // namespace

extern "C" int request_fuzz_input(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto line = text.find('\n');
    if (text.starts_with('{') || line == text.npos)
        read_frame(text);
    else
        ask(text.substr(0, line), text.substr(line + 1));
    return 0;
}
