#include "people.hpp"

namespace troupe::actors::sim {
namespace {

constexpr int most_words = 230;          // of a conversation; then it starts anew
constexpr double patience_ms = 200;      // before it asks again what was refused
constexpr double no_answer_ms = 30'000;  // before it asks again what nobody answered

}  // namespace

people::people(context& c, front_door& door) : c_(c), door_(door), killers_(c.w.killers), not_finite_(c.w.not_finite) {
    for (int i = 0; i < 3; ++i) preambles_.push_back(words(c_.pick(5, 90)));
    for (int i = 0; i < c_.w.n_conversations; ++i) {
        conversation& x = conversations_.emplace_back();
        x.number = i;
        x.stored = c_.chance(c_.w.stored);
        x.session = "s" + std::to_string(i);
        // The first client has most of the conversations: the others must not suffer from it.
        x.client_key = "client" + std::to_string(c_.chance(0.5) ? 0 : c_.pick(0, c_.w.n_clients - 1));
    }
}

std::string people::name(const conversation& c) const {
    return "conversation " + std::to_string(c.number) + " turn " + std::to_string(c.n_turns) + ": ";
}

std::vector<token_id> people::words(int n) {
    std::vector<token_id> w;
    for (int i = 0; i < n; ++i) w.push_back(static_cast<token_id>(10 + c_.pick(0, 800)));
    return w;
}

// ---- asking

void people::start() {
    for (conversation& c : conversations_) think(c);
}

void people::think(conversation& c) {
    c.is = conversation::state::idle;
    c_.time.after(c_.uniform(0, 2) * c_.w.think_ms, [this, &c] { next(c); });
}

void people::next(conversation& c) {
    if (!c_.lively || c.is != conversation::state::idle) return;
    draw_question(c);
    ask(c);
}

void people::draw_question(conversation& c) {
    turn t;
    if (c.context.empty() || c.context.size() > most_words || !c.stored) {
        c.context = preambles_[static_cast<std::size_t>(c_.pick(0, 2))];
        if (c_.chance(0.3)) c.context.resize(static_cast<std::size_t>(c_.pick(1, static_cast<int>(c.context.size()))));
        if (!c.stored && c_.chance(0.1)) c.context.clear();
    }
    const auto more = words(c_.pick(c.context.empty() ? 1 : 0, c_.chance(0.2) ? 120 : 30));
    c.context.insert(c.context.end(), more.begin(), more.end());
    // The very same question from two at once.
    if (!turns_.empty() && !c.stored && c_.chance(0.2) && !turns_.back().killer && !turns_.back().not_finite)
        c.context = turns_.back().prompt;
    t.prompt = c.context;
    t.killer = killers_ > 0 && c_.chance(0.2);
    t.not_finite = !t.killer && not_finite_ > 0 && c_.chance(0.2);
    killers_ -= t.killer;
    not_finite_ -= t.not_finite;
    if (t.killer) t.prompt[t.prompt.size() / 2] = killer_token;
    if (t.not_finite) t.prompt[t.prompt.size() / 2] = nan_token;
    const auto room = c_.w.info.n_ctx - static_cast<std::int64_t>(t.prompt.size());
    t.max_tokens = std::max<std::int64_t>(1, std::min<std::int64_t>(room, c_.pick(1, c_.chance(0.2) ? 150 : 40)));
    if (c_.chance(c_.w.stop_string))
        t.stop = {static_cast<char>('a' + c_.pick(0, 25)), static_cast<char>('a' + c_.pick(0, 25))};
    t.batch = c_.chance(c_.w.batch);
    solve(t);
    c.turn = turns_.size();
    turns_.push_back(std::move(t));
    ++c.n_turns;
    c.user_message = "u" + std::to_string(c.number) + "-" + std::to_string(c.n_turns);
    c.answer.clear();
    c.text.clear();
    c.stopped = false;
    c.n_asked = 0;
}

void people::ask(conversation& c) {
    c.is = conversation::state::asking;
    c.asked_at = c_.now();
    if (!door_.open()) return;  // it is asked again when somebody opens
    if (!c.stored) {
        c.session = "e" + std::to_string(c.number) + "-" + std::to_string(c.n_turns) + "-" + std::to_string(c.n_asked);
        c.last_seq = 0;
        c.following = true;
    } else if (!c.following) {
        door_.follow(c);
    }
    ++c.n_asked;
    door_.ask(c);
    c_.time.after(no_answer_ms, [this, &c, of = c.n_turns, asked = c.n_asked] {
        if (c.n_turns == of && c.n_asked == asked && c.is == conversation::state::asking) ask(c);
    });
}

void people::taken(conversation& c) {
    if (c.is != conversation::state::asking) return;
    c.is = conversation::state::reading;
    wander(c);
}

/// What a person may do while an answer is made.
void people::wander(conversation& c) {
    const auto of = c.n_turns;
    if (c_.fault(c_.w.cancel))
        c_.time.after(c_.uniform(0, 400), [this, &c, of] {
            if (c.n_turns != of || c.is != conversation::state::reading || !door_.open()) return;
            c.stopped = true;
            door_.stop(c);
        });
    if (c_.fault(c_.w.leave))
        c_.time.after(c_.uniform(0, 400), [this, &c, of] {
            if (c.n_turns != of || c.is != conversation::state::reading || !door_.open()) return;
            c.following = false;
            door_.leave(c);
            if (!c.stored) {
                ++lost_;
                return think(c);
            }
            c.is = conversation::state::away;
            c_.time.after(c_.uniform(0, 1000), [this, &c, of] {
                if (c.n_turns == of && c.is == conversation::state::away && door_.open()) come_back(c);
            });
        });
}

void people::come_back(conversation& c) {
    c.is = conversation::state::reading;
    c.following = true;
    door_.follow(c);
}

void people::refused(conversation& c, const error& e) {
    if (c.is != conversation::state::asking) return;
    switch (e.code) {
    case errc::queue_full:
    case errc::session_busy:
    case errc::persistence_degraded:
        if (e.code == errc::queue_full && e.retry_after_ms <= 0) c_.wrong("queue_full says no time");
        if (!c_.lively) return think(c);
        c_.time.after(std::max<double>(patience_ms, static_cast<double>(e.retry_after_ms)), [this, &c, of = c.n_turns] {
            if (c.n_turns == of && c.is == conversation::state::asking) ask(c);
        });
        return;
    case errc::out_of_memory:
    case errc::context_length_exceeded:
        c.context.clear();
        return think(c);
    default:
        c_.wrong(name(c) + "refused: " + e.message);
    }
}

// ---- reading

void people::read(conversation& c, const event& e) {
    if (const auto* s = std::get_if<snapshot_event>(&e.payload)) {
        c.last_seq = e.seq;
        return read_snapshot(c, *s);
    }
    if (e.seq != c.last_seq + 1)
        c_.wrong(name(c) + "event " + std::to_string(e.seq) + " after " + std::to_string(c.last_seq));
    c.last_seq = e.seq;
    if (const auto* m = std::get_if<message_created>(&e.payload)) {
        if (m->message.role == "assistant") {
            c.answer = m->message.id;
            c.text.clear();
        }
    } else if (const auto* d = std::get_if<delta_event>(&e.payload)) {
        read_delta(c, *d);
    } else if (const auto* done_event = std::get_if<generation_done>(&e.payload)) {
        if (done_event->message != c.answer) return;
        done(c, done_event->finish_reason, done_event->usage.completion_tokens, done_event->stopped_by == "user");
    } else if (const auto* broken = std::get_if<generation_error>(&e.payload); broken && broken->message == c.answer) {
        failed(c, broken->err);
    }
}

void people::read_delta(conversation& c, const delta_event& d) {
    if (c.is != conversation::state::reading || d.message != c.answer) return;
    if (d.offset != c.text.size())
        return c_.wrong(name(c) + "text at " + std::to_string(d.offset) + " after " + std::to_string(c.text.size()));
    c.text += d.text;
    check_text(c);
}

void people::check_text(conversation& c) {
    // One that ends before its stop string is whole shows what there is of it.
    const turn& t = turns_[c.turn];
    const std::string most = t.text + t.stop.substr(0, t.stop.empty() ? 0 : t.stop.size() - 1);
    if (!most.starts_with(c.text)) c_.wrong(name(c) + "another text");
}

void people::read_snapshot(conversation& c, const snapshot_event& s) {
    ++snapshots_;
    const bool waits = c.is == conversation::state::asking || c.is == conversation::state::reading;
    if (!waits) return;
    const auto is_user = [&](const message_view& m) { return m.id == c.user_message; };
    const auto user = std::find_if(s.messages.begin(), s.messages.end(), is_user);
    if (user == s.messages.end()) {
        if (c.is == conversation::state::reading && !c.answer.empty() && !c.forgetful)
            c_.wrong(name(c) + "a question it had taken is gone");
        if (c.is == conversation::state::reading && (!c.answer.empty() || c.forgetful)) think(c);
        return;
    }
    const auto answer =
        std::find_if(user, s.messages.end(), [&](const message_view& m) { return m.parent == c.user_message; });
    if (answer == s.messages.end()) return c_.wrong(name(c) + "a question without its answer");
    c.is = conversation::state::reading;
    c.answer = answer->id;
    const std::string text = s.generating && s.generating->message == answer->id ? s.generating->text : answer->content;
    if (text.size() < c.text.size() && !c.forgetful) c_.wrong(name(c) + "text that was read is gone");
    c.text = text;
    check_text(c);
    const auto n = static_cast<std::int64_t>(c.text.size() / 3);
    if (answer->err) return failed(c, *answer->err);
    if (!answer->finish_reason.empty()) done(c, answer->finish_reason, n, c.stopped);
}

void people::done(conversation& c, const std::string& finish_reason, std::int64_t n_tokens, bool by_user) {
    if (c.is != conversation::state::reading) return;
    const turn& t = turns_[c.turn];
    // Memory may hold less than the context.
    const bool cut = finish_reason == "length" && static_cast<std::int64_t>(t.prompt.size()) + n_tokens >= c_.w.longest;
    if (by_user && !c.stopped) c_.wrong(name(c) + "stopped by nobody");
    if (!by_user && !c.stopped && !cut && c.text != t.text) c_.wrong(name(c) + "the answer is short");
    // A prompt that fills all there is ends before it is computed.
    const bool computed = static_cast<std::int64_t>(t.prompt.size()) < c_.w.longest;
    if (!by_user && !c.stopped && computed && (t.killer || t.not_finite)) c_.wrong(name(c) + "should have failed");
    ++finished_;
    n_tokens = std::clamp<std::int64_t>(n_tokens, 0, static_cast<std::int64_t>(t.tokens.size()));
    c.context = t.prompt;
    c.context.insert(c.context.end(), t.tokens.begin(), t.tokens.begin() + n_tokens);
    if (t.killer || t.not_finite) c.context.clear();
    c.forgetful = false;
    think(c);
}

bool people::expected(const conversation& c, const error& e) const {
    const turn& t = turns_[c.turn];
    const world& w = c_.w;
    const bool too_long = static_cast<std::int64_t>(t.prompt.size()) >= w.longest;  // found out when an executor came
    switch (e.code) {
    case errc::executor_poisoned:  // an innocent one may die thrice in one stretch by chance
        return t.killer || (w.deaths_look_like_crashes && w.death > 0) || w.hang > 0 || killers_ < w.killers;
    case errc::non_finite_logits:
        return t.not_finite;
    case errc::queue_timeout:
        return true;
    case errc::out_of_memory:
        return w.commit_failure > 0 || w.memory_short > 0 || w.void_rows > 0 || too_long;
    case errc::context_length_exceeded:
        return too_long;
    case errc::internal:
        return w.void_rows > 0 || (w.session_crash > 0 && !c.stored);
    case errc::shutting_down:  // its session crashed again and again
        return w.session_crash > 0;
    default:
        return false;
    }
}

void people::failed(conversation& c, const error& e) {
    if (c.is != conversation::state::reading) return;
    if (!expected(c, e)) c_.wrong(name(c) + "failed: " + std::string(info(e.code).name) + " " + e.message);
    ++failed_;
    c.context.clear();
    c.forgetful = false;
    think(c);
}

// ---- the front dies

void people::front_died(bool may_forget) {
    for (conversation& c : conversations_) {
        c.following = false;
        if (c.stored) {
            c.forgetful = c.forgetful || may_forget;
            continue;
        }
        if (c.is == conversation::state::idle) continue;
        ++lost_;
        think(c);
    }
}

void people::front_is_back() {
    for (conversation& c : conversations_) {
        if (c.is == conversation::state::asking)
            ask(c);
        else if (c.is != conversation::state::idle)
            come_back(c);
    }
}

void people::check_end() {
    for (const conversation& c : conversations_)
        if (c.is != conversation::state::idle)
            c_.wrong(name(c) + "waits for ever, in state " + std::to_string(static_cast<int>(c.is)) +
                     " with the answer '" + c.answer + "'");
}

}  // namespace troupe::actors::sim
