// The front without an executor: real gateway, sessions and tokenizer in virtual time; the scheduler and, if a test
// wants to hold back commits, the store are actors the test plays itself.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <unistd.h>

#include "actors/compactor/compactor_actor.hpp"
#include "actors/gateway/gateway_actor.hpp"
#include "actors/store/store_actor.hpp"
#include "actors/tokenizer/tokenizer_actor.hpp"
#include "tests/actors/session/fake_vocabulary.hpp"
#include "tests/support/actor_fixture.hpp"

namespace troupe::test {

using namespace actors;

/// Remembers what it was told.
struct recording_client final : client_port {
    struct told {
        event_ptr e;
        std::string request_id;
    };
    std::vector<told> events;
    void deliver(event_ptr e, std::string_view request_id) override {
        events.push_back({std::move(e), std::string(request_id)});
    }

    /// Names of the events, one letter each: S snapshot, m message, q queued, p progress, d delta, P paused, R resumed,
    /// V embedding, D done, E error, u updated, x deleted, - degraded, + restored.
    std::string kinds() const {
        static constexpr std::string_view letters = "SmqpdPRVDEux-+";
        std::string r;
        for (const auto& t : events) r += letters[t.e->payload.index()];
        return r;
    }
    std::string text() const {
        std::string r;
        for (const auto& t : events)
            if (const auto* d = std::get_if<delta_event>(&t.e->payload)) {
                EXPECT_EQ(d->offset, r.size());
                r += d->text;
            } else if (const auto* s = std::get_if<snapshot_event>(&t.e->payload); s && s->generating) {
                r = s->generating->text;
            }
        return r;
    }
    template <class T> const T& last() const { return std::get<T>(events.back().e->payload); }
};

/// Accepts everything and remembers it; the test says what happens to it.
struct fake_scheduler_state {
    std::vector<submit_generation> submitted;
    std::vector<generation_id> cancelled;
    std::vector<std::pair<generation_id, std::int64_t>> stopped_at;
    std::optional<error> refuse;
};
inline caf::behavior fake_scheduler(caf::event_based_actor*, std::shared_ptr<fake_scheduler_state> s) {
    return {
        [s](submit_generation& g) -> caf::result<bool> {
            if (s->refuse) return make_caf_error(*s->refuse);
            s->submitted.push_back(g);
            return true;
        },
        [s](cancel_atom, generation_id id) { s->cancelled.push_back(id); },
        [](compactor_atom, const caf::actor&) {},
        [s](stop_at_atom, generation_id id, std::int64_t n) { s->stopped_at.emplace_back(id, n); },
    };
}

/// A store that commits when the test says so.
struct held_store_state {
    std::vector<store_write> writes;
};
inline caf::behavior held_store(caf::event_based_actor*, std::shared_ptr<held_store_state> s, session_ptr content) {
    return {
        [s](const store_write& w) { s->writes.push_back(w); },
        [content](const store_load&) { return content; },
        [](store_unfinished) { return std::make_shared<const std::vector<std::string>>(); },
        [](const store_list&) { return std::make_shared<const session_page>(); },
    };
}

class front_test : public actor_test {
 public:
    front_test() : dir(std::filesystem::temp_directory_path() / ("troupe-front-" + std::to_string(::getpid()))) {
        std::filesystem::remove_all(dir);
        std::filesystem::create_directories(dir);
        tools = std::make_shared<const text_tools>(
            text_tools{vocabulary, [](const render_chat& r) {
                           std::vector<model::text_part> parts;
                           for (const auto& m : r.messages)
                               parts.push_back({m.role.substr(0, 1) + ":" + m.content + "\n", true});
                           return result<std::vector<model::text_part>>(parts);
                       }});
    }
    ~front_test() override {
        if (gateway) caf::anon_send_exit(gateway, caf::exit_reason::kill);
        gateway = nullptr;
        run();
        std::filesystem::remove_all(dir);
    }

    /// Starts a front over the same data directory; `held`: with a store the test plays.
    void start(std::shared_ptr<held_store_state> held = nullptr, session_ptr content = nullptr) {
        if (gateway) {
            caf::anon_send_exit(gateway, caf::exit_reason::kill);
            run();
        }
        scheduler_state = std::make_shared<fake_scheduler_state>();
        fake = spawn(fake_scheduler, scheduler_state);
        gateway_setup g;
        g.settings = std::make_shared<const troupe::config>(settings);
        g.scheduler = fake;
        g.spawn_store = [this, held, content](caf::actor listener) {
            return store = held ? spawn(held_store, held, content)
                                : spawn(store_actor, store_options{(dir / "troupe.db").string(), {}}, listener);
        };
        g.spawn_compactor = [this] {
            ++compactors;
            return compactor = own(spawn_compactor(system, fake, std::chrono::seconds(60)));
        };
        gateway = spawn(gateway_actor, std::move(g));
        caf::anon_send(gateway, gateway_tokenizer{[this] { return spawn(tokenizer_actor, tools); }});
        run();
    }
    void model_ready(const std::string& numerics = "cpu/1", std::int64_t n_ctx = 200) {
        caf::anon_send(gateway, gateway_model{std::make_shared<const model_facts>(
                                    model_facts{vocabulary, "tiny", "hash", numerics, n_ctx})});
        run();
    }

    template <class T> struct slot { std::vector<result<T>> got; };
    template <class T> answer<T> into(std::shared_ptr<slot<T>> s) {
        return answer<T>([s](result<T> r) { s->got.push_back(std::move(r)); });
    }
    void send(const std::string& session, command_body body) {
        caf::anon_send(gateway, client_command{session, std::make_shared<command_body>(std::move(body))});
    }
    /// Sends a command built by `make(answer)`, runs, and returns what was answered (exactly once).
    template <class T, class F> result<T> answered(const std::string& session, F&& make) {
        auto s = std::make_shared<slot<T>>();
        send(session, make(into(s)));
        run();
        EXPECT_EQ(s->got.size(), 1u) << "an answer is given exactly once";
        return s->got.empty() ? result<T>(fail(errc::internal, "no answer")) : s->got.front();
    }

    std::string create(std::string title = {}) {
        auto r = answered<session_view>({}, [&](auto a) { return command::create{title, {}, a}; });
        EXPECT_TRUE(r.ok());
        return r.ok() ? r->id : std::string();
    }
    std::shared_ptr<recording_client> follow(const std::string& session, std::optional<std::uint64_t> from = {}) {
        auto c = std::make_shared<recording_client>();
        EXPECT_TRUE((answered<bool>(session, [&](auto a) { return command::subscribe{from, c, a}; }).ok()));
        return c;
    }
    result<posted> say(const std::string& session, const std::string& id, const std::string& text,
        client_ptr from = nullptr, const std::string& request_id = {}, generation_params params = {}) {
        return answered<posted>(session, [&](auto a) {
            return command::message{{id, text, {}, params}, {"key", from, request_id}, a};
        });
    }
    result<snapshot_event> snapshot_of(const std::string& session) {
        return answered<snapshot_event>(session, [](auto a) { return command::get{a}; });
    }

    // -- what the scheduler says about the latest generation
    const submit_generation& latest() const { return scheduler_state->submitted.back(); }
    generation_tokens batch(const std::string& text) {
        generation_tokens t{latest().id, static_cast<std::int64_t>(n_told[latest().id]), {}, {}};
        for (char c : text) t.tokens.push_back({static_cast<unsigned char>(c), -1});
        n_told[latest().id] += text.size();
        return t;
    }
    template <class M> void tell(M m) {
        caf::anon_send(latest().owner, std::move(m));
        run();
    }
    void tokens(const std::string& text) { tell(batch(text)); }
    void finish_with(finish why, error e = {}) {
        generation_finished f{latest().id, why, std::move(e)};
        f.usage.completion_tokens = static_cast<std::int64_t>(n_told[latest().id]);
        tell(f);
    }

    std::filesystem::path dir;
    troupe::config settings;
    std::shared_ptr<testing::fake_vocabulary> vocabulary = std::make_shared<testing::fake_vocabulary>();
    std::shared_ptr<const text_tools> tools;
    std::shared_ptr<fake_scheduler_state> scheduler_state;
    std::map<generation_id, std::size_t> n_told;
    caf::actor gateway, store, fake, compactor;
    int compactors = 0;
};

}  // namespace troupe::test
