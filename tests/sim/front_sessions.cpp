// The sessions' and the gateway's shells: answers are made, journaled, then told; and gone on with after a death.
#include "core/limits.hpp"
#include "front.hpp"

namespace troupe::actors::sim {
namespace {

constexpr int crashes_before_giving_up = 3;

template <class T> const T* get(const event_payload& e) { return std::get_if<T>(&e); }

}  // namespace

front::room& front::find_room(const std::string& name, bool stored) {
    const auto [at, fresh] = rooms_.try_emplace(name);
    room& r = at->second;
    if (!fresh) return r;
    r.name = name;
    r.stored = stored;
    if (stored) {
        r.loading = true;
        load(r);
    } else {
        r.log = event_log(0, ~std::uint64_t{0});
        r.actor = std::make_unique<session>();
    }
    return r;
}

void front::load(room& r) {
    to_store_.send(c_, 0.05, 0.5, alive_.guard([this, &r] {
        flush();
        if (disk_.load(r.name, backlog_->records())) return loaded(r);
        session_view v;
        v.id = r.name;
        const auto rows = std::make_shared<const std::vector<record>>(std::vector<record>{put_session{v, {}, 0}});
        const auto number = ++next_write_;
        unsettled_[number] = {rows, [this, &r, number](saved) {
                                  if (unsettled_.erase(number) > 0) loaded(r);
                              }};
        send_write(rows, unsettled_[number].acknowledged);
    }));
}

void front::loaded(room& r) {
    const auto s = disk_.load(r.name, backlog_->records());
    if (!s) return c_.wrong("a session that was created is not there");
    r.loading = false;
    // After a crash its client may lack events that were written but not published.
    conversation* follower = r.crashes > 0 ? std::exchange(r.of, nullptr) : nullptr;
    if (r.log.last() == 0)
        r.log = log_of_stored(*s);
    else
        r.log.break_off();
    r.actor = std::make_unique<session>();
    r.actor->leaf = s->leaf;
    r.actor->shown.info = s->info;
    for (const auto& m : s->messages) r.actor->shown.messages.push_back(m.view);
    if (!s->unfinished.empty()) {
        r.actor->shown.generating = generating_view{s->unfinished.front().message, {}};
        resume(r, s->unfinished.front());
    }
    if (follower) snapshot(r, *follower);
    for (const auto& f : std::exchange(r.waiting, {})) f();
}

// ---- questions

void front::ask(conversation& c) {
    c_.time.after(c_.uniform(0.1, 1), alive_.guard([this, &c, of = c.n_turns, name = c.session] {
        room& r = find_room(name, c.stored);
        if (!c.stored) r.of = &c;
        const auto now = [this, &r, &c, of] {
            if (c.n_turns == of && c.is == conversation::state::asking) question(r, c);
        };
        if (r.loading)
            r.waiting.push_back(now);
        else
            now();
    }));
}

bool front::submit(room& r, generation_id id, const turn& t, std::vector<token_id> accepted, bool resumed, error& why) {
    generation_request g;
    g.id = id;
    g.client_key = r.of ? r.of->client_key : r.name;
    g.session = r.name;
    g.prompt = std::make_shared<const std::vector<token_id>>(t.prompt);
    g.accepted = std::move(accepted);
    g.params.max_tokens = t.max_tokens;
    g.params.end_tokens = {end_token};
    g.batch_priority = t.batch;
    g.resumed = resumed;
    g.keep = r.stored;
    const auto copy = g;
    const auto taken = policy_.submit(std::move(g), c_.now());
    poked_ = true;
    if (!taken) {
        why = taken.error();
        return false;
    }
    watch_.submitted(copy, t);
    owners_[id] = r.name;
    return true;
}

void front::question(room& r, conversation& c) {
    session& s = *r.actor;
    const auto& messages = s.shown.messages;
    if (std::any_of(messages.begin(), messages.end(), [&](const auto& m) { return m.id == c.user_message; }))
        return snapshot(r, c);  // it came before
    if (s.run) return people_->refused(c, fail(errc::session_busy, "an answer is being made"));
    const turn& t = people_->question(c.turn);
    const auto id = next_generation_++;
    error why;
    if (!submit(r, id, t, {}, false, why)) {
        if (!r.stored) rooms_.erase(r.name);
        return people_->refused(c, why);
    }
    s.generation = id;
    const std::string answer = "a" + c.user_message.substr(1);
    if (r.stored) s.row = "g" + c.user_message.substr(1);
    start_run(r, c.turn, answer, c.user_message);
    if (!r.stored) {
        c.answer = answer;
        return people_->taken(c);
    }
    const stored_message user{{c.user_message, s.leaf, "user", "?", 1, {}, {}}, {}};
    const stored_message assistant{{answer, c.user_message, "assistant", {}, 1, {}, {}}, {}};
    s.leaf = answer;
    emit(r,
        {put_session{s.shown.info, s.leaf, 0}, put_message{r.name, user}, put_message{r.name, assistant},
            put_generation{{s.row, r.name, answer, t.prompt, std::to_string(c.turn), "sim", "sim", "sim", {}}}},
        {message_created{user.view}, message_created{assistant.view}}, [this, &c] { people_->taken(c); });
}

void front::start_run(room& r, std::size_t question, const std::string& answer, const std::string& parent) {
    session& s = *r.actor;
    const turn& t = people_->question(question);
    answer_setup a;
    a.session = r.name;
    a.generation = s.row;
    a.assistant.view = {answer, parent, "assistant", {}, 1, {}, {}};
    a.vocabulary = the_vocabulary();
    if (!t.stop.empty()) a.stop = {t.stop};
    s.question = question;
    s.run = std::make_unique<answer_run>(std::move(a));
    if (r.stored) r.log.pin();
}

/// As session_core::resume_unfinished does it.
void front::resume(room& r, const stored_generation& g) {
    session& s = *r.actor;
    s.generation = next_generation_++;
    s.row = g.id;
    const auto& messages = s.shown.messages;
    const auto message =
        std::find_if(messages.begin(), messages.end(), [&](const auto& m) { return m.id == g.message; });
    if (message == messages.end()) return c_.wrong("an unfinished answer without its message");
    start_run(r, std::stoul(g.params), g.message, message->parent);
    auto step = s.run->resume(g.tokens, false);
    const auto stopped = std::exchange(step.stop_at, {});
    take(r, std::move(step));
    const turn& t = people_->question(s.question);
    const auto n = static_cast<std::int64_t>(g.tokens.size());
    if (stopped || n >= t.max_tokens) {
        generation_finished f{s.generation, stopped ? finish::stop : finish::length};
        f.n_tokens = f.usage.completion_tokens = n;
        return take(r, s.run->on(f));
    }
    if (r.crashes >= crashes_before_giving_up) return take(r, s.run->fail_with(fail(errc::shutting_down, "crashes")));
    submit_resumed(r, g.tokens);
}

void front::submit_resumed(room& r, std::vector<token_id> accepted) {
    session& s = *r.actor;
    error why;
    if (!submit(r, s.generation, people_->question(s.question), std::move(accepted), true, why))
        take(r, s.run->fail_with(why));
}

// ---- answers

void front::take(room& r, answer_run::step s) {
    session& a = *r.actor;
    if (s.stop_at)
        to_scheduler_.send(c_, 0.01, 0.1, alive_.guard([this, id = a.generation, n = *s.stop_at] {
            policy_.stop_at(id, n, c_.now());
            poked_ = true;
        }));
    if (s.records.empty() && s.events.empty() && !s.over) return;
    std::function<void()> after;
    if (s.over) after = [this, &r] { over(r); };
    emit(r, std::move(s.records), std::move(s.events), std::move(after));
}

void front::emit(room& r, std::vector<record> records, std::vector<event_payload> events, std::function<void()> after) {
    out_item item{0, nullptr, std::move(events), nullptr, {}, std::move(after)};
    if (r.stored && !records.empty()) {
        item.ticket = ++r.actor->tickets;
        item.records = std::make_shared<const std::vector<record>>(std::move(records));
        send_unsettled(r, item);
    }
    r.actor->out.push(std::move(item));
    drain(r);
}

void front::send_unsettled(room& r, const out_item& item) {
    send_write(item.records, [this, &r, session = r.actor->alive.token(), ticket = item.ticket](saved) {
        if (session.expired()) return;
        r.actor->out.settle(ticket);
        drain(r);
    });
}

void front::drain(room& r) {
    while (r.actor && r.actor->out.front_ready()) {
        auto item = r.actor->out.pop();
        for (const auto& e : item.events) fold(*r.actor, e);
        if (!item.events.empty()) publish(r, std::move(item.events));
        if (item.after) item.after();
    }
}

/// As session_core::fold does it.
void front::fold(session& s, const event_payload& e) {
    auto& generating = s.shown.generating;
    const auto ended = [&](const std::string& id, const std::string& why, const std::optional<error>& err) {
        for (auto& m : s.shown.messages)
            if (m.id == id) m.content = generating ? generating->text : "", m.finish_reason = why, m.err = err;
        generating.reset();
    };
    if (const auto* m = get<message_created>(e)) {
        s.shown.messages.push_back(m->message);
        if (m->message.role == "assistant") generating = generating_view{m->message.id, {}};
    } else if (const auto* d = get<delta_event>(e)) {
        if (generating) generating->text.resize(d->offset);
        if (generating) generating->text += d->text;
    } else if (const auto* done = get<generation_done>(e)) {
        ended(done->message, done->finish_reason, {});
    } else if (const auto* failed = get<generation_error>(e)) {
        ended(failed->message, "", failed->err);
    }
}

void front::over(room& r) {
    r.actor->run.reset();
    r.crashes = 0;
    if (r.stored) return r.log.unpin();
    c_.time.after(0, alive_.guard([this, name = r.name] { rooms_.erase(name); }));
}

// ---- the gateway

void front::publish(room& r, std::vector<event_payload> events) {
    if (r.held.empty())
        tell_numbered(r, std::move(events));
    else
        r.held.push_back(std::move(events));
}

void front::tell_numbered(room& r, std::vector<event_payload> events) {
    for (std::size_t i = 0; i < events.size(); ++i) {
        if (r.log.exhausted()) {
            r.held.push_front({events.begin() + static_cast<std::ptrdiff_t>(i), events.end()});
            return reserve(r);
        }
        if (r.delivered.trim(events[i])) continue;
        check_durable(r, events[i]);
        tell(r, *r.log.append(r.name, std::move(events[i])));
    }
    if (r.stored && r.log.wants_reservation()) reserve(r);
}

void front::reserve(room& r) {
    if (std::exchange(r.reserving, true)) return;
    const auto up_to = r.log.reserved() + limits::seq_reservation;
    const auto rows = std::make_shared<const std::vector<record>>(std::vector<record>{reserve_seq{r.name, up_to}});
    const auto number = ++next_write_;
    unsettled_[number] = {rows, [this, &r, number, up_to](saved) {
                              if (unsettled_.erase(number) == 0) return;
                              r.reserving = false;
                              r.log.extend(up_to);
                              while (!r.held.empty() && !r.log.exhausted()) {
                                  auto events = std::move(r.held.front());
                                  r.held.pop_front();
                                  tell_numbered(r, std::move(events));
                              }
                              if (!r.held.empty()) reserve(r);
                          }};
    send_write(rows, unsettled_[number].acknowledged);
}

void front::tell(room& r, const event& e) {
    if (r.of && r.of->following && r.of->session == r.name) people_->read(*r.of, e);
}

/// Journal before delivery: what a client is told is on the disk, unless persistence is degraded.
void front::check_durable(const room& r, const event_payload& e) {
    if (!r.stored || !r.actor || writer_->degraded()) return;
    bool durable = true;
    if (const auto* d = get<delta_event>(e))
        durable = disk_.journaled(r.actor->row).value_or(INT64_MAX) >= d->n_tokens;
    else if (const auto* m = get<message_created>(e))
        durable = disk_.has_message(r.name, m->message.id);
    else if (get<generation_done>(e) || get<generation_error>(e))
        durable = !disk_.journaled(r.actor->row);
    if (!durable) c_.wrong("session " + r.name + ": told before it was written");
}

bool front::could_forget() const { return writer_->degraded() || !backlog_->empty(); }

void front::follow(conversation& c) {
    c.following = true;
    c_.time.after(c_.uniform(0.1, 1), alive_.guard([this, &c, of = c.n_turns] {
        room& r = find_room(c.session, true);
        const auto now = [this, &r, &c] {
            // A session that is lost with the backlog is not found; its client starts anew.
            if (c.forgetful || !r.log.covers(c.last_seq)) return snapshot(r, c);
            r.of = &c;
            for (const auto& e : r.log.since(c.last_seq)) people_->read(c, *e);
        };
        if (r.loading)
            r.waiting.push_back(now);
        else
            now();
    }));
}

/// Events that wait for their numbers are in the session's state already: they come first. The client follows from
/// then on.
void front::snapshot(room& r, conversation& c) {
    if (!c.following || c.session != r.name) return;
    // Nor may a later life use its number for another state: it must be reserved, too.
    if (r.stored && r.log.exhausted()) reserve(r);
    if (!r.held.empty() || !r.actor || r.log.exhausted()) {
        c_.time.after(1, alive_.guard([this, &r, &c] { snapshot(r, c); }));
        return;
    }
    r.of = &c;
    auto s = r.actor->shown;
    s.seq = r.log.last();
    tell(r, {r.name, r.log.last(), std::move(s)});
}

void front::stop(conversation& c) {
    c_.time.after(c_.uniform(0.1, 1), alive_.guard([this, name = c.session] {
        const auto found = rooms_.find(name);
        if (found == rooms_.end() || !found->second.actor || !found->second.actor->run) return;
        found->second.actor->run->request_stop();
        cancel(found->second.actor->generation);
    }));
}

void front::leave(conversation& c) {
    if (!c.stored) stop(c);
    const auto found = rooms_.find(c.session);
    if (found != rooms_.end()) found->second.of = nullptr;
}

void front::crash_session(int which) {
    for (auto& [name, r] : rooms_) {
        if (!r.actor || !r.actor->run || which-- > 0) continue;
        cancel(r.actor->generation);
        if (!r.stored) {
            const std::string answer = r.actor->run->message();
            r.actor.reset();
            publish(r, {generation_error{answer, fail(errc::internal, "the session crashed")}});
            rooms_.erase(name);
            return;
        }
        ++r.crashes;
        r.actor.reset();
        r.loading = true;
        return load(r);
    }
}

}  // namespace troupe::actors::sim
