// How a session gets an answer made: prompt from the tokenizer, place from the scheduler, then tokens until it is over;
// and how it goes on with one that a restart of the front interrupted.
#include "actors/session/session_actor.hpp"

#include "core/clock.hpp"
#include "core/ids.hpp"
#include "core/limits.hpp"

namespace troupe::actors {
namespace {

constexpr int prompt_tries = 3;  // a restarted tokenizer is asked again
constexpr auto ask_again_after = std::chrono::milliseconds(100);
constexpr auto submit_again_after = std::chrono::seconds(1);

/// The text a fault with request_contains looks in.
std::string text_of(const answer_plan& p) {
    std::string r = p.prompt;
    for (const auto& m : p.context) r += m.content + "\n";
    return r;
}

}  // namespace

void session_core::begin(answer_plan plan) {
    plan.serial = ++last_serial_;
    plan.generation = setup_.next_generation->fetch_add(1) + 1;
    plan_ = std::move(plan);
    phase_ = phase::preparing;
    ask_for_prompt();
}

void session_core::ask_for_prompt() {
    auto& p = *plan_;
    const auto serial = p.serial;
    const auto good = [this, serial](const rendered_chat& r) {
        if (!plan_ || plan_->serial != serial) return;
        plan_->calls = r.calls;
        prompt_ready(r.ids, r.text);
    };
    const auto bad = [this, serial](const caf::error& e) { prompt_failed(serial, e); };
    if (p.ids) {
        for (auto id : *p.ids)
            if (id < 0 || id >= setup_.peers.model->vocabulary->n_tokens())
                return refused(fail(
                    errc::invalid_request, "the prompt has a token id the vocabulary does not have", p.prompt_name));
        return prompt_ready(std::make_shared<const std::vector<token_id>>(*p.ids), {});
    }
    if (p.text) {
        self_->request(setup_.peers.tokenizer, limits::actor_request_timeout, encode_atom::value, p.prompt, true, true)
            .then(good, bad);
        return;
    }
    const auto kwargs = overlay(info_.settings.params, p.params).template_kwargs;
    self_
        ->request(setup_.peers.tokenizer, limits::actor_request_timeout,
            render_chat{p.context, kwargs, true, p.tools, p.tool_choice, p.parallel_tool_calls})
        .then(good, bad);
}

void session_core::prompt_failed(std::uint64_t serial, const caf::error& e) {
    if (!plan_ || plan_->serial != serial) return;
    const auto err = from_caf_error(e);
    if (err.code != errc::internal) return refused(err);
    // The tokenizer died; its successor is announced by peers_changed, which may come after this answer.
    if (++plan_->tries >= prompt_tries) return refused(fail(errc::internal, "the tokenizer failed on this prompt"));
    self_->delayed_send(self_, ask_again_after, timer_atom::value, serial);
}

void session_core::timer(std::uint64_t serial) {
    if (!plan_ || plan_->serial != serial) return;
    if (plan_->prompt_ids && (plan_->resumed || plan_->grammar))
        submit();
    else
        ask_for_prompt();
}

void session_core::prompt_ready(std::shared_ptr<const std::vector<token_id>> ids, const std::string& text) {
    auto& p = *plan_;
    p.prompt_ids = std::move(ids);
    if (p.prompt.empty() && p.text) p.prompt = text;
    if (!p.grammar && ask_for_grammar()) return;
    resolve_input in{p.params, info_.settings.params, setup_.defaults};
    in.n_prompt = static_cast<std::int64_t>(p.prompt_ids->size());
    in.n_ctx = setup_.peers.model->n_ctx;
    in.drawn_seed = random_u64();
    in.choice = p.choice;
    in.echo = p.echo;
    in.prompt_only = p.prompt_only;
    in.pool = p.pool;
    in.prompt_name = p.prompt_name;
    auto resolved = resolve(in, *setup_.peers.model->vocabulary);
    if (!resolved) return refused(resolved.error());
    p.resolved = std::move(*resolved);
    p.resolved.sequence.grammar = p.grammar.value_or("");
    submit();
}

/// True: the answer must follow a grammar, which the tokenizer is asked to make; prompt_ready comes again.
bool session_core::ask_for_grammar() {
    auto& p = *plan_;
    const auto params = overlay(info_.settings.params, p.params);
    constrain_output c{params.grammar, params.json_schema, params.format_field.value_or("grammar")};
    const bool wanted = c.grammar || !c.json_schema.value_or("").empty();
    p.grammar = p.calls.grammar;
    if (!wanted) return false;
    if (p.calls.style != model::call_style::unknown) {
        refused(fail(errc::unsupported_parameter, c.field + " is not available together with tools", c.field));
        return true;
    }
    p.grammar.reset();
    const auto serial = p.serial;
    self_->request(setup_.peers.tokenizer, limits::actor_request_timeout, std::move(c))
        .then(
            [this, serial](const std::string& grammar) {
                if (!plan_ || plan_->serial != serial) return;
                plan_->grammar = grammar;
                const auto ids = plan_->prompt_ids;
                prompt_ready(ids, plan_->prompt);
            },
            [this, serial](const caf::error& e) { prompt_failed(serial, e); });
    return true;
}

void session_core::submit() {
    const auto& p = *plan_;
    submit_generation s;
    s.id = p.generation;
    s.client_key = p.from.client_key.empty() ? info_.id : p.from.client_key;
    s.session = info_.id;
    s.model = setup_.peers.model->name;
    s.prompt = p.prompt_ids;
    s.accepted = p.accepted;
    s.resumed = p.resumed;
    s.params = p.resolved.sequence;
    s.mu = p.accepted.empty() ? 2 * s.params.mirostat_tau : p.mu;
    s.keep = !setup_.ephemeral;
    if (setup_.keep_prompt_text) s.prompt_text = text_of(p);
    s.owner = caf::actor_cast<caf::actor>(self_);
    const auto serial = p.serial;
    const auto id = p.generation;
    self_->request(setup_.peers.scheduler, limits::actor_request_timeout, std::move(s))
        .then(
            [this, serial, id](bool) {
                if (plan_ && plan_->serial == serial)
                    accepted();
                else
                    self_->send(setup_.peers.scheduler, cancel_atom::value, id);
            },
            [this, serial](const caf::error& e) {
                if (plan_ && plan_->serial == serial) refused(from_caf_error(e));
            });
}

/// The scheduler does not take it: nothing has been stored, nothing is.
void session_core::refused(error e) {
    auto plan = std::move(*plan_);
    plan_.reset();
    if (plan.resumed) {
        if (e.code == errc::shutting_down) return;  // the next start goes on with it
        if (e.code == errc::not_ready) {
            plan_ = std::move(plan);
            self_->delayed_send(self_, submit_again_after, timer_atom::value, plan_->serial);
            return;
        }
        unfinished_.clear();
        if (run_) take(run_->fail_with(std::move(e)));
        return;
    }
    phase_ = phase::idle;
    plan.done(e);
    plan.ticket(e);
    for (auto& r : plan.repeats) r(e);
    if (setup_.ephemeral) became_idle();
}

void session_core::start_run() {
    const auto& p = *plan_;
    answer_setup a;
    a.session = info_.id;
    a.generation = p.row;
    a.assistant = p.assistant;
    a.vocabulary = setup_.peers.model->vocabulary;
    a.stop = p.resolved.stop;
    a.logprobs = p.resolved.sequence.n_logprobs >= 0;
    a.ids = p.token_ids;
    a.calls = p.calls;
    if (p.echo) {
        a.echo = p.prompt;
        if (a.logprobs) a.echo_ids = *p.prompt_ids;
        if (p.ids) {
            model::utf8_stream utf8;
            for (auto id : *p.ids) a.echo += utf8.push(a.vocabulary->piece(id));
            a.echo += utf8.flush();
        }
    }
    run_ = std::make_unique<answer_run>(std::move(a));
    generation_ = p.generation;
    phase_ = phase::running;
    self_->send(setup_.gateway, session_status{info_.id, p.assistant.view.id, p.generation, true});
}

void session_core::accepted() {
    if (!plan_->resumed) start_run();
    auto p = std::move(*plan_);
    plan_.reset();
    unfinished_.clear();
    p.ticket(generation_ticket{info_.id, p.assistant.view.id, p.generation, setup_.peers.model->name});
    if (stored() && !p.resumed) {
        std::vector<record> records;
        std::vector<event_payload> events;
        next_leaf_ = p.assistant.view.id;
        info_.updated = unix_ms();
        const bool untitled = info_.title.empty() && p.user;
        if (untitled) info_.title = title_from(p.user->view.content);
        records.emplace_back(session_row());
        if (p.user) {
            records.emplace_back(put_message{info_.id, *p.user});
            events.emplace_back(message_created{p.user->view});
        }
        records.emplace_back(put_message{info_.id, p.assistant});
        records.emplace_back(put_generation{{p.row, info_.id, p.assistant.view.id, *p.prompt_ids, to_json(p.resolved),
            setup_.peers.model->name, setup_.peers.model->hash, setup_.peers.model->numerics_id, {}}});
        events.emplace_back(message_created{p.assistant.view});
        if (untitled && !info_.title.empty()) events.emplace_back(session_updated{info_});
        const posted ids{p.user ? p.user->view.id : std::string(), p.assistant.view.id, false, {}};
        if (p.user) posting_ = posting{p.user->view.id, std::move(p.repeats)};
        emit(std::move(records), std::move(events), p.from, [this, done = p.done, ids] {
            done(ids);
            const auto repeats = posting_ ? std::move(posting_->repeats) : std::vector<answer<posted>>{};
            posting_.reset();
            for (const auto& r : repeats) r(posted{ids.user_message, ids.assistant_message, true, {}});
        });
    }
    if (!p.stop_requested) return;
    run_->request_stop();
    self_->send(setup_.peers.scheduler, cancel_atom::value, generation_);
}

void session_core::take(answer_run::step s) {
    if (s.stop_at) self_->send(setup_.peers.scheduler, stop_at_atom::value, generation_, *s.stop_at);
    if (s.records.empty() && s.events.empty() && !s.over) return;
    std::function<void()> after;
    if (s.over) after = [this] { became_idle(); };
    emit(std::move(s.records), std::move(s.events), {}, std::move(after));
}

void session_core::resume_unfinished() {
    if (unfinished_.empty() || plan_ || run_ || removed_ || !setup_.peers.model) return;
    for (; unfinished_.size() > 1; unfinished_.pop_back()) emit({end_generation{unfinished_.back().id}}, {});
    const auto g = unfinished_.front();
    const auto* message = tree_.find(g.message);
    auto params = resolved_from_json(g.params);
    if (!message || !params) {
        unfinished_.erase(unfinished_.begin());
        generating_.reset();
        return emit({end_generation{g.id}}, {});
    }
    answer_plan p;
    p.serial = ++last_serial_;
    p.generation = setup_.next_generation->fetch_add(1) + 1;
    p.resumed = true;
    p.row = g.id;
    p.assistant = *message;
    p.prompt_ids = std::make_shared<const std::vector<token_id>>(g.prompt);
    p.resolved = std::move(*params);
    p.accepted = g.tokens;
    p.mu = g.mu;
    plan_ = std::move(p);
    start_run();
    const bool same_model = g.model_hash == setup_.peers.model->hash;
    auto s = run_->resume(g.tokens, g.numerics_id != setup_.peers.model->numerics_id);
    const auto stopped = std::exchange(s.stop_at, {});
    take(std::move(s));
    for (const auto token : std::exchange(held_snapshots_, {})) answer_snapshot({token});
    const auto n = static_cast<std::int64_t>(g.tokens.size());
    const bool full = n >= plan_->resolved.sequence.max_tokens;
    if (setup_.resume && same_model && !stopped && !full) return submit();
    plan_.reset();
    unfinished_.clear();
    if (stopped || full) {
        // It was complete; only its last words were not written.
        generation_finished f{generation_, stopped ? finish::stop : finish::length};
        f.n_tokens = f.usage.completion_tokens = n;
        f.usage.prompt_tokens = static_cast<std::int64_t>(g.prompt.size());
        return take(run_->on(f));
    }
    take(run_->fail_with(
        setup_.resume
            ? fail(errc::conflict, "the server was restarted with another model before this answer was finished")
            : fail(errc::shutting_down, "the server was restarted before this answer was finished")));
}

}  // namespace troupe::actors
