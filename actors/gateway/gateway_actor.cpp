#include "actors/gateway/gateway_actor.hpp"

#include <boost/json.hpp>

#include "actors/session/portable.hpp"
#include "core/clock.hpp"
#include "core/ids.hpp"
#include "core/limits.hpp"
#include "core/log.hpp"

namespace troupe::actors {
namespace {

error stopping() { return fail(errc::shutting_down, "the engine is shutting down"); }

/// Answers a command that cannot be carried out.
void answer_all(command_body& body, const error& e) {
    std::visit(
        [&](auto& c) {
            using C = std::decay_t<decltype(c)>;
            if constexpr (!std::is_same_v<C, command::disconnect> && !std::is_same_v<C, command::cancel>) c.done(e);
        },
        body);
}

bool starts_work(const command_body& b) {
    return std::holds_alternative<command::message>(b) || std::holds_alternative<command::regenerate>(b) ||
           std::holds_alternative<command::edit>(b) || std::holds_alternative<command::complete>(b);
}

}  // namespace

gateway_state::gateway_state() = default;
gateway_state::~gateway_state() = default;

gateway_core::gateway_core(gateway_self* self, gateway_setup setup)
    : self_(self), setup_(std::move(setup)), next_generation_(std::make_shared<std::atomic<std::uint64_t>>(0)),
      session_fault_(std::make_shared<std::atomic<std::int64_t>>(-1)) {
    peers_.scheduler = setup_.scheduler;
    spawn_store();
    if (setup_.spawn_compactor) spawn_compactor();
}

void gateway_core::command(const client_command& c) {
    auto& body = *c.body;
    if (closed_ || (draining_ && starts_work(body))) return answer_all(body, stopping());
    if (auto* x = std::get_if<command::create>(&body)) return handle(*x);
    if (auto* x = std::get_if<command::list>(&body)) return handle(*x);
    if (auto* x = std::get_if<command::import_json>(&body)) return handle(*x);
    if (auto* x = std::get_if<command::disconnect>(&body)) return handle(*x);
    if (auto* x = std::get_if<command::complete>(&body); x && c.session.empty()) return start_ephemeral(c, *x);
    route(c.session, c);
}

void gateway_core::handle(command::create& c) {
    session_view v{make_id("ses_"), std::move(c.title), std::move(c.settings), unix_ms(), 0};
    v.updated = v.created;
    write({put_session{v, {}, 0}}, [v, done = c.done](saved how) {
        if (how == saved::refused) return done(fail(errc::persistence_degraded, "the disk takes no more sessions"));
        done(v);
    });
}

void gateway_core::handle(command::list& c) {
    self_->request(peers_.store, limits::actor_request_timeout, store_list{c.limit, c.after, c.search})
        .then([done = c.done](const page_ptr& p) { done(*p); },
            [done = c.done](const caf::error& e) { done(from_caf_error(e)); });
}

void gateway_core::handle(command::import_json& c) {
    auto parsed = import_session(c.json);
    if (!parsed) return c.done(parsed.error());
    auto s = std::make_shared<stored_session>(std::move(*parsed));
    if (!is_client_id(s->info.id) || entries_.contains(s->info.id)) s->info.id = make_id("ses_");
    const auto finish = [this, s, done = c.done](bool taken) {
        if (taken) s->info.id = make_id("ses_");
        std::vector<record> records{put_session{s->info, s->leaf, 0}};
        for (auto& m : s->messages) records.emplace_back(put_message{s->info.id, std::move(m)});
        write(std::move(records), [s, done](saved how) {
            if (how == saved::refused) return done(fail(errc::persistence_degraded, "the disk takes no more sessions"));
            done(s->info);
        });
    };
    self_->request(peers_.store, limits::actor_request_timeout, store_load{s->info.id})
        .then([finish](const session_ptr& there) { finish(there != nullptr); },
            [done = c.done](const caf::error& e) { done(from_caf_error(e)); });
}

void gateway_core::handle(command::disconnect& c) {
    std::erase(health_clients_, c.client);
    for (auto& [name, e] : entries_) {
        std::erase(e.subscribers, c.client);
        std::erase_if(e.wanted, [&](const wanted_snapshot& w) { return w.client == c.client; });
    }
    make_room();
}

void gateway_core::start_ephemeral(const client_command& c, command::complete& body) {
    const std::string name = make_id("ses_");
    auto& e = entries_[name];
    e.ephemeral = true;
    e.log = event_log(0, ~std::uint64_t{0});
    e.subscribers.push_back(body.client);
    stored_session s;
    s.info.id = name;
    spawn_session(name, e, std::move(s));
    self_->send(e.actor, client_command{name, c.body});
}

void gateway_core::route(const std::string& name, const client_command& c) {
    auto it = entries_.find(name);
    if (it == entries_.end()) {
        if (auto* u = std::get_if<command::unsubscribe>(c.body.get())) return u->done(true);
        if (std::holds_alternative<command::cancel>(*c.body)) return;
        if (!is_client_id(name))
            return answer_all(*c.body, fail(errc::not_found, "there is no such session", "session"));
        auto& e = entries_[name];
        e.loading = true;
        e.waiting.push_back(c);
        return load(name);
    }
    auto& e = it->second;
    if (e.loading || e.retiring)
        e.waiting.push_back(c);
    else
        dispatch(name, e, c);
}

void gateway_core::dispatch(const std::string& name, entry& e, const client_command& c) {
    e.used = ++clock_;
    if (auto* s = std::get_if<command::subscribe>(c.body.get())) return subscribe(e, *s);
    if (auto* u = std::get_if<command::unsubscribe>(c.body.get())) {
        end_subscription(e, u->client);
        return u->done(true);
    }
    if (auto* g = std::get_if<command::get>(c.body.get())) return want_snapshot(e, {0, nullptr, {}, g->done});
    if (std::holds_alternative<command::cancel>(*c.body) && !e.ephemeral) return;
    if (auto* x = std::get_if<command::complete>(c.body.get()))
        if (std::find(e.subscribers.begin(), e.subscribers.end(), x->client) == e.subscribers.end())
            e.subscribers.push_back(x->client);
    self_->send(e.actor, client_command{name, c.body});
}

/// One that still waits for its snapshot gets its answer: another command of the same client has taken its place.
void gateway_core::end_subscription(entry& e, const client_ptr& client) {
    std::erase(e.subscribers, client);
    for (auto& w : e.wanted)
        if (w.client == client) w.subscribed(true);
    std::erase_if(e.wanted, [&](const wanted_snapshot& w) { return w.client == client; });
}

void gateway_core::subscribe(entry& e, command::subscribe& c) {
    end_subscription(e, c.client);
    if (!c.from || !e.log.covers(*c.from)) return want_snapshot(e, {0, c.client, c.done, {}});
    for (const auto& event : e.log.since(*c.from)) c.client->deliver(event, {});
    e.subscribers.push_back(c.client);
    c.done(true);
}

void gateway_core::want_snapshot(entry& e, wanted_snapshot w) {
    w.token = ++next_token_;
    e.wanted.push_back(std::move(w));
    self_->send(e.actor, snapshot_request{next_token_});
}

void gateway_core::snapshot(const snapshot_ready& s) {
    auto it = entries_.find(s.session);
    if (it == entries_.end()) return;
    auto& e = it->second;
    const auto w = std::find_if(e.wanted.begin(), e.wanted.end(), [&](const auto& x) { return x.token == s.token; });
    if (w == e.wanted.end()) return;  // the client left meanwhile
    const auto wanted = *w;
    // Events that wait for their numbers are in the snapshot's state but not in its seq. And its seq must be below what
    // is reserved: else a client that has it could not tell this state from what a front killed now would have added.
    // The session is asked again when the numbers are there.
    if (!e.held.empty() || e.log.exhausted()) return reserve(s.session, e);
    e.wanted.erase(w);
    // The session's messages come in order: its state is the sum of all events numbered so far.
    s.snapshot->seq = e.log.last();
    if (!wanted.client) return wanted.got(*s.snapshot);
    wanted.client->deliver(std::make_shared<const event>(event{s.session, s.snapshot->seq, *s.snapshot}), {});
    std::erase(e.subscribers, wanted.client);
    e.subscribers.push_back(wanted.client);
    wanted.subscribed(true);
}

void gateway_core::publish(const publish_events& p) {
    auto it = entries_.find(p.session);
    if (it == entries_.end() || closed_) return;
    auto& e = it->second;
    if (!e.held.empty())
        e.held.push_back(p);
    else
        deliver(p.session, e, p);
}

void gateway_core::deliver(const std::string& name, entry& e, publish_events p) {
    for (std::size_t i = 0; i < p.events.size(); ++i) {
        if (e.log.exhausted()) {
            p.events.erase(p.events.begin(), p.events.begin() + static_cast<std::ptrdiff_t>(i));
            e.held.push_front(std::move(p));
            return reserve(name, e);
        }
        if (e.delivered.trim(p.events[i])) continue;
        const auto event = e.log.append(name, std::move(p.events[i]));
        bool told = false;
        for (const auto& client : e.subscribers) {
            const bool origin = client == p.origin;
            told = told || origin;
            client->deliver(event, origin ? std::string_view(p.request_id) : std::string_view());
        }
        if (p.origin && !told) p.origin->deliver(event, p.request_id);
        p.origin.reset();  // only the first event answers the request
    }
    if (!e.ephemeral && e.log.wants_reservation()) reserve(name, e);
}

void gateway_core::reserve(const std::string& name, entry& e) {
    if (std::exchange(e.reserving, true)) return;
    const auto up_to = e.log.reserved() + limits::seq_reservation;
    write({reserve_seq{name, up_to}}, [this, name, up_to](saved) {
        const auto it = entries_.find(name);
        if (it == entries_.end()) return;
        auto& e = it->second;
        e.reserving = false;
        e.log.extend(up_to);
        while (!e.held.empty() && !e.log.exhausted()) {
            auto p = std::move(e.held.front());
            e.held.pop_front();
            deliver(name, e, std::move(p));
        }
        // A session that crashed before its first event had its numbers counted anew meanwhile.
        if (!e.held.empty()) return reserve(name, e);
        if (!e.actor) return;
        for (const auto& w : e.wanted) self_->send(e.actor, snapshot_request{w.token});
    });
}

void gateway_core::write(std::vector<record> records, std::function<void(saved)> then) {
    const auto ticket = ++next_ticket_;
    auto shared = std::make_shared<const std::vector<record>>(std::move(records));
    writes_.emplace(ticket, pending_write{shared, std::move(then)});
    self_->send(peers_.store, store_write{ticket, shared, caf::actor_cast<caf::actor>(self_)});
}

void gateway_core::acknowledged(const store_ack& a) {
    const auto it = writes_.find(a.ticket);
    if (it == writes_.end()) return;
    const auto then = std::move(it->second.then);
    writes_.erase(it);
    then(a.how);
}

void gateway_core::set_busy(entry& e, bool busy) {
    if (e.busy == busy) return;
    e.busy = busy;
    busy_ += busy ? 1 : -1;
    if (e.ephemeral) busy_ephemeral_ += busy ? 1 : -1;
    if (busy)
        e.log.pin();
    else
        e.log.unpin();
    answer_drained();
}

void gateway_core::answer_drained() {
    auto waiters = std::exchange(drained_, {});
    for (auto& w : waiters)
        if ((w.journaled_too ? busy_ : busy_ephemeral_) == 0)
            w.done();
        else
            drained_.push_back(std::move(w));
}

void gateway_core::status(const session_status& s) {
    const auto it = entries_.find(s.session);
    if (it == entries_.end()) return;
    auto& e = it->second;
    set_busy(e, s.busy);
    e.running_message = s.busy ? s.message : std::string();
    e.generation = s.busy ? s.generation : 0;
    if (!s.busy) {
        e.crashes = 0;
        if (e.ephemeral) erase(s.session);
    }
}

void gateway_core::broadcast(const health_broadcast& b) {
    if (closed_) return;
    std::optional<degraded_event> now;
    if (b.degraded) now = degraded_event{b.level, b.reason};
    tell_health(engine_degraded_, std::move(now), {b.level, b.reason});
}

/// One may be restored while the other is not: then the other is what there is to tell.
void gateway_core::tell_health(
    std::optional<degraded_event>& known, std::optional<degraded_event> now, restored_event restored) {
    known = std::move(now);
    event_payload payload = std::move(restored);
    for (const auto* still : {&engine_degraded_, &disk_degraded_})
        if (*still) payload = **still;
    if (known) payload = *known;
    const auto e = std::make_shared<const event>(event{{}, 0, std::move(payload)});
    for (const auto& client : health_clients_) client->deliver(e, {});
}

/// Who comes later hears at once what is not as it should be.
void gateway_core::follow_health(const health_subscription& s) {
    health_clients_.push_back(s.client);
    for (const auto* d : {&disk_degraded_, &engine_degraded_})
        if (*d) s.client->deliver(std::make_shared<const event>(event{{}, 0, **d}), {});
}

void gateway_core::persistence_changed(const persistence_state& p) {
    persistence_ = p;
    if (setup_.persistence) setup_.persistence(p.degraded, p.reason);
    std::optional<degraded_event> now;
    if (p.degraded) now = degraded_event{"persistence", p.reason};
    if (!closed_) tell_health(disk_degraded_, std::move(now), {"ok", p.reason});
}

void gateway_core::drain(const gateway_drain& d) {
    draining_ = true;
    drained_.push_back({d.journaled_too, d.when_idle});
    answer_drained();
}

void gateway_core::shutdown(const gateway_shutdown& s) {
    draining_ = true;
    for (auto& [name, e] : entries_)
        if (e.ephemeral && e.busy)
            deliver(name, e, {name, {generation_error{e.running_message, stopping()}}, nullptr, {}});
    closed_ = true;
    for (auto& [name, e] : entries_) {
        for (auto& c : e.waiting) answer_all(*c.body, stopping());
        if (e.actor) self_->send_exit(e.actor, caf::exit_reason::user_shutdown);
    }
    entries_.clear();
    health_clients_.clear();
    // The store answers behind everything that was sent to it: then the journal is on disk.
    const auto finish = [this, done = s.done] {
        self_->send_exit(peers_.store, caf::exit_reason::user_shutdown);
        for (const auto& a : {peers_.tokenizer, compactor_})
            if (a) self_->send_exit(a, caf::exit_reason::user_shutdown);
        writes_.clear();
        done();
    };
    self_->request(peers_.store, limits::drain_deadline, store_unfinished{})
        .then([finish](const names_ptr&) { finish(); }, [finish](const caf::error&) { finish(); });
}

std::string gateway_core::state_json() const {
    namespace json = boost::json;
    json::array sessions;
    std::size_t bytes = 0;
    for (const auto& [name, e] : entries_) {
        bytes += e.log.bytes();
        const char* state = e.loading ? "loading" : e.retiring ? "retiring" : e.busy ? "generating" : "idle";
        sessions.push_back(
            {{"id", name}, {"state", state}, {"stored", !e.ephemeral}, {"subscribers", e.subscribers.size()},
                {"seq", e.log.last()}, {"replay_events", e.log.size()}, {"replay_bytes", e.log.bytes()}});
    }
    return json::serialize(json::object{{"mailbox", self_->mailbox().size()}, {"sessions", std::move(sessions)},
        {"busy", busy_}, {"replay_bytes", bytes}, {"draining", draining_},
        {"restarts", {{"store", store_restarts_}, {"tokenizer", tokenizer_restarts_}, {"session", session_restarts_},
                         {"compactor", compactor_restarts_}}},
        {"persistence", {{"degraded", persistence_.degraded}, {"reason", persistence_.reason}}}});
}

caf::behavior gateway_actor(gateway_self* self, gateway_setup setup) {
    self->state.core = std::make_unique<gateway_core>(self, std::move(setup));
    auto* core = self->state.core.get();
    self->set_down_handler([core](caf::down_msg& d) { core->down(d); });
    return {
        [core](const client_command& c) { core->command(c); },
        [core](const publish_events& p) { core->publish(p); },
        [core](const snapshot_ready& s) { core->snapshot(s); },
        [core](const session_status& s) { core->status(s); },
        [core](const store_ack& a) { core->acknowledged(a); },
        [core](const persistence_state& p) { core->persistence_changed(p); },
        [core](const gateway_model& m) { core->model_ready(m); },
        [core](const gateway_tokenizer& t) { core->tokenizer_ready(t); },
        [core](const health_subscription& s) { core->follow_health(s); },
        [core](const health_broadcast& b) { core->broadcast(b); },
        [core](const std::string& target, const actor_fault& f) -> caf::result<bool> {
            auto r = core->arm(target, f);
            if (!r) return make_caf_error(r.error());
            return *r;
        },
        [core](const gateway_drain& d) { core->drain(d); },
        [core](const gateway_shutdown& s) { core->shutdown(s); },
        [core](timer_atom, const std::string& name) { core->load_again(name); },
        [core](state_atom) { return core->state_json(); },
    };
}

}  // namespace troupe::actors
