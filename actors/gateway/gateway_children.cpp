// The gateway's children: sessions loaded from the store, unloaded when nobody needs them, and what takes the place of
// a session, the store, the tokenizer or the compactor that died.
#include "actors/gateway/gateway_actor.hpp"
#include "core/limits.hpp"
#include "core/log.hpp"

namespace troupe::actors {
namespace {

constexpr int load_tries_max = 3;
constexpr int crashes_before_giving_up = 3;  // of one answer: then it is ended instead of gone on with
constexpr auto load_again_after = std::chrono::milliseconds(100);

}  // namespace

void gateway_core::load(const std::string& name) {
    self_->request(peers_.store, limits::actor_request_timeout, store_load{name})
        .then([this, name](const session_ptr& s) { loaded(name, s); },
            [this, name](const caf::error& e) { load_failed(name, from_caf_error(e)); });
}

void gateway_core::load_again(const std::string& name) {
    const auto it = entries_.find(name);
    if (it != entries_.end() && it->second.loading) load(name);
}

void gateway_core::load_failed(const std::string& name, const error& e) {
    const auto it = entries_.find(name);
    if (it == entries_.end() || !it->second.loading) return;
    // `internal`: the store died with the question in its mailbox; its successor can answer.
    if (e.code == errc::internal && ++it->second.load_tries < load_tries_max) {
        self_->delayed_send(self_, load_again_after, timer_atom::value, name);
        return;
    }
    auto waiting = std::move(it->second.waiting);
    erase(name);
    for (auto& c : waiting)
        std::visit(
            [&](auto& body) {
                if constexpr (requires { body.done(e); }) body.done(e);
            },
            *c.body);
}

void gateway_core::loaded(const std::string& name, const session_ptr& s) {
    const auto it = entries_.find(name);
    if (it == entries_.end() || !it->second.loading) return;
    if (!s) return load_failed(name, fail(errc::not_found, "there is no such session", "session"));
    auto& e = it->second;
    e.loading = false;
    e.load_tries = 0;
    const bool fresh = e.log.last() == 0 && e.log.size() == 0;
    if (const auto known = unloaded_.find(name); known != unloaded_.end()) {
        e.log = event_log(known->second.last, known->second.reserved);
        unloaded_.erase(known);
    } else if (fresh) {
        e.log = log_of_stored(*s);
    } else {
        e.log.break_off();
    }
    spawn_session(name, e, *s);
    // After a crash clients may lack events that were written but not published.
    for (const auto& client : std::exchange(e.subscribers, {})) want_snapshot(e, {0, client, {}, {}});
    for (const auto& c : std::exchange(e.waiting, {})) dispatch(name, e, c);
    make_room();
}

void gateway_core::spawn_session(const std::string& name, entry& e, stored_session s) {
    auto setup = std::make_shared<session_setup>();
    setup->stored = std::move(s);
    setup->ephemeral = e.ephemeral;
    setup->resume = e.crashes >= crashes_before_giving_up ? false : setup_.settings->resume_unfinished || e.crashes > 0;
    setup->keep_prompt_text = setup_.settings->fault_injection;
    setup->defaults = setup_.settings->defaults;
    setup->peers = peers_;
    setup->gateway = caf::actor_cast<caf::actor>(self_);
    setup->next_generation = next_generation_;
    setup->fault = session_fault_;
    e.actor = self_->spawn<caf::monitored>(session_actor, std::shared_ptr<const session_setup>(std::move(setup)));
    e.used = ++clock_;
    names_[e.actor.address()] = name;
}

void gateway_core::erase(const std::string& name) {
    const auto it = entries_.find(name);
    if (it == entries_.end()) return;
    set_busy(it->second, false);
    if (it->second.actor) names_.erase(it->second.actor.address());
    entries_.erase(it);
}

/// Idle sessions nobody follows leave, the longest unused first, while more are loaded than the limit.
void gateway_core::make_room() {
    std::size_t stored = 0;
    for (const auto& [name, e] : entries_) stored += !e.ephemeral && !e.retiring;
    while (stored > limits::max_loaded_sessions) {
        entry* oldest = nullptr;
        for (auto& [name, e] : entries_) {
            const bool needed = e.ephemeral || e.loading || e.retiring || e.busy || !e.subscribers.empty() ||
                                !e.wanted.empty() || !e.waiting.empty() || !e.held.empty() || e.reserving;
            if (!needed && (!oldest || e.used < oldest->used)) oldest = &e;
        }
        if (!oldest) return;
        oldest->retiring = true;
        self_->send(oldest->actor, retire_session{});
        --stored;
    }
}

void gateway_core::down(const caf::down_msg& d) {
    if (closed_) return;
    if (d.source == peers_.store) {
        log::error("store_died reason=\"{}\"", caf::to_string(d.reason));
        ++store_restarts_;
        if (setup_.restarted) setup_.restarted("store", "crash");
        return spawn_store();
    }
    if (peers_.tokenizer && d.source == peers_.tokenizer) {
        log::error("tokenizer_died reason=\"{}\"", caf::to_string(d.reason));
        ++tokenizer_restarts_;
        if (setup_.restarted) setup_.restarted("tokenizer", "crash");
        return spawn_tokenizer();
    }
    if (compactor_ && d.source == compactor_) {
        log::error("compactor_died reason=\"{}\"", caf::to_string(d.reason));
        ++compactor_restarts_;
        if (setup_.restarted) setup_.restarted("compactor", "crash");
        return spawn_compactor();
    }
    const auto it = names_.find(d.source);
    if (it == names_.end()) return;
    const std::string name = it->second;
    names_.erase(it);
    session_down(name, d.reason);
}

void gateway_core::session_down(const std::string& name, const caf::error& reason) {
    const auto it = entries_.find(name);
    if (it == entries_.end()) return;
    auto& e = it->second;
    e.actor = nullptr;
    const bool crashed = reason && reason != caf::exit_reason::normal;
    if (!crashed && e.retiring && !e.ephemeral) {
        unloaded_[name] = {e.log.last(), e.log.reserved()};
        auto waiting = std::move(e.waiting);
        erase(name);
        for (const auto& c : waiting) route(name, c);
        return;
    }
    if (!crashed) {
        // It was deleted; who asked meanwhile asked too late.
        for (const auto& w : e.wanted) {
            const auto gone = fail(errc::not_found, "there is no such session", "session");
            w.got(gone);
            w.subscribed(gone);
        }
        return erase(name);
    }
    log::error("session_died session={} reason=\"{}\"", name, caf::to_string(reason));
    ++session_restarts_;
    if (setup_.restarted) setup_.restarted("session", "crash");
    if (e.generation) self_->send(peers_.scheduler, cancel_atom::value, e.generation);
    if (e.ephemeral) {
        const auto err = fail(errc::internal, "the part of the engine that kept this answer failed");
        if (e.busy) deliver(name, e, {name, {generation_error{e.running_message, err}}, nullptr, {}});
        return erase(name);
    }
    ++e.crashes;
    e.retiring = false;
    e.loading = true;
    // Who waited for a snapshot of the dead one gets it from its successor.
    for (auto& w : std::exchange(e.wanted, {})) {
        client_command c{name, std::make_shared<command_body>()};
        if (w.client && w.subscribed)
            *c.body = command::subscribe{{}, w.client, w.subscribed};
        else if (w.got)
            *c.body = command::get{w.got};
        else
            continue;
        e.waiting.push_back(std::move(c));
    }
    load(name);
}

void gateway_core::spawn_store() {
    peers_.store = setup_.spawn_store(caf::actor_cast<caf::actor>(self_));
    self_->monitor(peers_.store);
    for (const auto& [ticket, w] : writes_)
        self_->send(peers_.store, store_write{ticket, w.records, caf::actor_cast<caf::actor>(self_)});
    tell_peers();
}

void gateway_core::spawn_tokenizer() {
    peers_.tokenizer = tokenizer_factory_();
    self_->monitor(peers_.tokenizer);
    tell_peers();
}

void gateway_core::spawn_compactor() {
    compactor_ = setup_.spawn_compactor();
    self_->monitor(compactor_);
}

void gateway_core::tell_peers() {
    for (auto& [name, e] : entries_)
        if (e.actor) self_->send(e.actor, peers_);
}

void gateway_core::tokenizer_ready(const gateway_tokenizer& t) {
    tokenizer_factory_ = t.spawn;
    spawn_tokenizer();
}

void gateway_core::model_ready(const gateway_model& m) {
    peers_.model = m.facts;
    tell_peers();
    self_->request(peers_.store, limits::actor_request_timeout, store_unfinished{})
        .then(
            [this](const names_ptr& names) {
                for (const auto& name : *names) {
                    if (entries_.contains(name) || closed_) continue;
                    log::info("answer_unfinished session={}", name);
                    entries_[name].loading = true;
                    load(name);
                }
            },
            [](const caf::error& e) { log::warn("unfinished_unknown reason=\"{}\"", from_caf_error(e).message); });
}

result<bool> gateway_core::arm(const std::string& target, const actor_fault& f) {
    if (f.kind != "crash") return fail(errc::invalid_request, "kind must be crash for the target " + target, "kind");
    if (target == "session")
        session_fault_->store(f.after);
    else if (target == "store")
        self_->send(peers_.store, f);
    else if (target == "tokenizer" && peers_.tokenizer)
        self_->send(peers_.tokenizer, f);
    else if (target == "compactor" && compactor_)
        self_->send(compactor_, f);
    else
        return fail(errc::invalid_request, "target must be executor, session, tokenizer, store or compactor", "target");
    return true;
}

}  // namespace troupe::actors
