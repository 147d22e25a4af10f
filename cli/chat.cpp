// troupe chat: a conversation in the terminal, with the engine in this process or over a running server.
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <functional>
#include <iostream>
#include <mutex>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "actors/engine.hpp"
#include "cli/commands.hpp"
#include "cli/remote_chat.hpp"
#include "core/limits.hpp"
#include "core/log.hpp"

namespace troupe::cli {
namespace {

/// Prints the deltas of one answer and lets the terminal's thread wait for its end.
class printer final : public client_port {
 public:
    void deliver(event_ptr e, std::string_view) override {
        const std::lock_guard lock(mutex_);
        if (const auto* d = std::get_if<delta_event>(&e->payload)) {
            std::fputs(d->text.c_str(), stdout);
            std::fflush(stdout);
            text_ += d->text;
        } else if (const auto* p = std::get_if<generation_paused>(&e->payload)) {
            fmt::print(stderr, "\n[{}: the answer continues]\n", p->reason);
        } else if (std::holds_alternative<generation_done>(e->payload)) {
            ended_ = true;
        } else if (const auto* f = std::get_if<generation_error>(&e->payload)) {
            fmt::print(stderr, "\n[{}]\n", f->err.message);
            ended_ = true;
        }
        changed_.notify_all();
    }
    void failed(const error& e) {
        const std::lock_guard lock(mutex_);
        fmt::print(stderr, "[{}]\n", e.message);
        ended_ = true;
        changed_.notify_all();
    }
    std::string wait() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return ended_; });
        return text_;
    }

 private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::string text_;
    bool ended_ = false;
};

/// Waits for ready or failed.
class start_gate {
 public:
    void open(std::optional<error> e) {
        const std::lock_guard lock(mutex_);
        failure_ = std::move(e);
        open_ = true;
        changed_.notify_all();
    }
    std::optional<error> wait() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return open_; });
        return failure_;
    }

 private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::optional<error> failure_;
    bool open_ = false;
};

using asker = std::function<std::string(const std::vector<chat_message>&)>;

int converse(const chat_options& o, const asker& ask) {
    std::vector<chat_message> messages;
    if (!o.system.empty()) messages.push_back({"system", o.system, ""});
    const bool terminal = isatty(STDIN_FILENO);
    for (std::string line;;) {
        if (terminal) fmt::print("\n> ");
        std::fflush(stdout);
        if (!std::getline(std::cin, line) || line == "/quit") break;
        if (line.empty()) continue;
        messages.push_back({"user", line, ""});
        auto answer = ask(messages);
        std::fputc('\n', stdout);
        if (answer.empty())
            messages.pop_back();
        else
            messages.push_back({"assistant", std::move(answer), ""});
    }
    return 0;
}

int chat_here(const chat_options& o) {
    if (o.settings.models.empty()) return report(fail(errc::usage, "--model or --server is needed", "model"));
    log::set_level("error");
    auto gate = std::make_shared<start_gate>();
    actors::start_callbacks callbacks;
    callbacks.ready = [gate] { gate->open({}); };
    callbacks.failed = [gate](error e) { gate->open(std::move(e)); };
    auto engine = actors::engine::start(o.settings, std::move(callbacks), std::make_shared<metrics>(""));
    if (!engine) return report(engine.error());
    int code = 0;
    if (const auto failure = gate->wait()) {
        code = report(*failure);
    } else {
        code = converse(o, [&](const std::vector<chat_message>& messages) {
            auto out = std::make_shared<printer>();
            completion_request request;
            request.messages = messages;
            request.client_key = "terminal";
            (*engine)->sessions().complete(std::move(request), out, [out](result<generation_ticket> r) {
                if (!r) out->failed(r.error());
            });
            return out->wait();
        });
    }
    (*engine)->shutdown(limits::drain_deadline);
    return code;
}

}  // namespace

int chat(const chat_options& o) {
    std::signal(SIGPIPE, SIG_IGN);
    if (o.server.empty()) return chat_here(o);
    return converse(o, [&](const std::vector<chat_message>& messages) {
        auto answer = ask_server(o.server, o.key, messages);
        if (!answer) fmt::print(stderr, "[{}]\n", answer.error().message);
        return answer ? *answer : std::string();
    });
}

}  // namespace troupe::cli
