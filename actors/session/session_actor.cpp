#include "actors/session/session_actor.hpp"

#include <stdexcept>

#include "actors/session/portable.hpp"
#include "core/clock.hpp"
#include "core/ids.hpp"

namespace troupe::actors {

session_state::session_state() = default;
session_state::~session_state() = default;

session_core::session_core(session_self* self, const session_setup& setup)
    : self_(self), setup_(setup), info_(setup.stored.info), tree_(setup.stored.messages, setup.stored.leaf),
      next_leaf_(tree_.leaf()), unfinished_(setup.stored.unfinished) {
    if (!unfinished_.empty()) generating_ = generating_view{unfinished_.front().message, {}};
    resume_unfinished();
}

void session_core::handle(command::update& c) {
    if (c.title) info_.title = *c.title;
    if (c.settings) info_.settings = *c.settings;
    info_.updated = unix_ms();
    emit({session_row()}, {session_updated{info_}}, {}, [done = c.done, view = info_] { done(view); });
}

void session_core::handle(command::remove& c) {
    if (run_) self_->send(setup_.peers.scheduler, cancel_atom::value, generation_);
    if (plan_) refused(fail(errc::not_found, "the session was deleted"));
    std::vector<event_payload> last;
    if (run_) last = run_->fail_with(fail(errc::not_found, "the session was deleted")).events;
    last.emplace_back(session_deleted{});
    run_.reset();
    removed_ = true;
    emit({delete_session{info_.id}}, std::move(last), {}, [this, done = c.done] {
        done(true);
        self_->send(setup_.gateway, session_status{info_.id, {}, generation_, false});
        self_->quit();
    });
}

void session_core::handle(command::export_json& c) { c.done(export_session(info_, tree_.messages(), tree_.leaf())); }

answer_plan session_core::plan_for(const std::string& parent, const generation_params& params) const {
    answer_plan p;
    p.assistant.view = {make_id("msg_"), parent, "assistant", {}, unix_ms(), {}, {}};
    p.params = params;
    if (stored()) p.row = make_id("gen_");
    return p;
}

std::optional<error> session_core::cannot_start() const {
    if (removed_) return fail(errc::not_found, "the session was deleted");
    if (phase_ != phase::idle || !unfinished_.empty())
        return fail(errc::session_busy, "an answer of this session is being made");
    if (store_full_)
        return fail(errc::persistence_degraded, "the disk takes no more messages; old ones are still waiting");
    if (!setup_.peers.model) {
        auto e = fail(errc::not_ready, "the model is still loading");
        e.retry_after_ms = 1000;
        return e;
    }
    if (const auto& wanted = info_.settings.model; !wanted.empty() && wanted != setup_.peers.model->name)
        return no_such_model(wanted);
    return {};
}

bool session_core::refuse_busy(const answer<posted>& done) const {
    const auto e = cannot_start();
    if (e) done(*e);
    return e.has_value();
}

/// The answer to a message that came before.
posted session_core::repeated(const std::string& user_message) const {
    posted p{user_message, tree_.first_child(user_message), true, {}};
    const auto* m = tree_.find(p.assistant_message);
    if (!m || (m->view.finish_reason.empty() && !m->view.err)) return p;
    p.finished =
        finished_answer{m->view.content, {m->view.id, m->view.finish_reason, {}, m->usage, {}, {}, {}}, m->view.err};
    return p;
}

void session_core::handle(command::message& c) {
    auto& m = c.m;
    if (!m.id.empty()) {
        if (plan_ && plan_->user && plan_->user->view.id == m.id) {
            plan_->repeats.push_back(c.done);
            return;
        }
        if (posting_ && posting_->id == m.id) {
            posting_->repeats.push_back(c.done);
            return;
        }
        if (tree_.find(m.id)) {
            c.done(repeated(m.id));
            return;
        }
    }
    if (refuse_busy(c.done)) return;
    auto parent = tree_.parent_for(m.parent);
    if (!parent) return c.done(parent.error());
    if (m.id.empty()) m.id = make_id("msg_");
    auto plan = plan_for(m.id, m.params);
    plan.user = stored_message{{m.id, *parent, "user", m.content, unix_ms(), {}, {}}, {}};
    plan.context = tree_.context(*parent, info_.settings.system);
    plan.context.push_back({"user", m.content, {}});
    plan.from = c.from;
    plan.done = c.done;
    begin(std::move(plan));
}

void session_core::handle(command::regenerate& c) {
    if (refuse_busy(c.done)) return;
    const auto* old = tree_.find(c.message);
    if (!old) return c.done(fail(errc::not_found, "message names no message of this session", "message"));
    if (old->view.role != "assistant")
        return c.done(fail(errc::invalid_request, "only an answer of the assistant can be made again", "message"));
    auto plan = plan_for(old->view.parent, c.params);
    plan.context = tree_.context(old->view.parent, info_.settings.system);
    plan.from = c.from;
    plan.done = c.done;
    begin(std::move(plan));
}

void session_core::handle(command::edit& c) {
    if (refuse_busy(c.done)) return;
    const auto* old = tree_.find(c.message);
    if (!old) return c.done(fail(errc::not_found, "message names no message of this session", "message"));
    if (old->view.role != "user")
        return c.done(fail(errc::invalid_request, "only a message of the user can be edited", "message"));
    const std::string parent = old->view.parent, id = make_id("msg_");
    auto plan = plan_for(id, c.params);
    plan.user = stored_message{{id, parent, "user", c.content, unix_ms(), {}, {}}, {}};
    plan.context = tree_.context(parent, info_.settings.system);
    plan.context.push_back({"user", c.content, {}});
    plan.from = c.from;
    plan.done = c.done;
    begin(std::move(plan));
}

void session_core::handle(command::stop& c) {
    const bool busy = run_ || plan_ || !unfinished_.empty();
    c.done(busy);
    if (plan_) plan_->stop_requested = true;
    if (!run_) return;
    run_->request_stop();
    self_->send(setup_.peers.scheduler, cancel_atom::value, generation_);
}

void session_core::handle(command::cancel&) {
    command::stop c;
    handle(c);
}

void session_core::handle(command::complete& c) {
    auto& r = c.request;
    if (const auto e = cannot_start()) {
        c.done(*e);
        if (!stored()) became_idle();
        return;
    }
    auto plan = plan_for(stored() ? tree_.leaf() : "", r.params);
    if (stored()) {
        if (!r.tools.empty())
            return c.done(fail(errc::unsupported_parameter,
                "tools are not available together with session_id: a stored message has no place for calls", "tools"));
        if (r.what != completion_request::kind::chat || r.messages.size() != 1 || r.messages[0].role != "user")
            return c.done(fail(errc::invalid_request,
                "with session_id a request holds one new user message: the session knows the others", "messages"));
        const std::string id = make_id("msg_");
        plan.user = stored_message{{id, tree_.leaf(), "user", r.messages[0].content, unix_ms(), {}, {}}, {}};
        plan.assistant.view.parent = id;
        plan.context = tree_.context(tree_.leaf(), info_.settings.system);
        plan.context.push_back(r.messages[0]);
    } else {
        plan.context = std::move(r.messages);
    }
    plan.text = r.what != completion_request::kind::chat;
    plan.prompt = std::move(r.prompt);
    plan.ids = std::move(r.prompt_ids);
    plan.echo = r.echo;
    plan.prompt_only = r.prompt_only;
    plan.token_ids = r.token_ids;
    plan.tools = std::move(r.tools);
    plan.tool_choice = std::move(r.tool_choice);
    plan.parallel_tool_calls = r.parallel_tool_calls;
    plan.choice = r.choice;
    plan.pool = r.pool;
    plan.prompt_name = r.prompt_name;
    plan.from = {r.client_key, c.client, {}};
    plan.ticket = c.done;
    begin(std::move(plan));
}

void session_core::emit(
    std::vector<record> records, std::vector<event_payload> events, command::origin from, std::function<void()> after) {
    out_item item{0, nullptr, std::move(events), std::move(from.client), std::move(from.request_id), std::move(after)};
    if (stored() && !records.empty()) {
        item.ticket = ++last_ticket_;
        item.records = std::make_shared<const std::vector<record>>(std::move(records));
        send_write(item);
    }
    out_.push(std::move(item));
    drain_outbox();
}

void session_core::send_write(const out_item& item) {
    self_->send(setup_.peers.store, store_write{item.ticket, item.records, caf::actor_cast<caf::actor>(self_)});
}

void session_core::acknowledged(const store_ack& a) {
    store_full_ = a.how == saved::refused;
    out_.settle(a.ticket);
    drain_outbox();
}

void session_core::drain_outbox() {
    while (out_.front_ready()) {
        auto item = out_.pop();
        for (const auto& e : item.events) fold(e);
        if (!item.events.empty())
            self_->send(setup_.gateway,
                publish_events{info_.id, std::move(item.events), std::move(item.origin), std::move(item.request_id)});
        if (item.after) item.after();
    }
    if (retiring_) retire();
}

/// The published state is the sum of the published events: a snapshot says exactly what the events said.
void session_core::fold(const event_payload& e) {
    if (const auto* m = std::get_if<message_created>(&e)) {
        tree_.add({m->message, {}});
        if (m->message.role == "assistant") generating_ = generating_view{m->message.id, {}};
    } else if (const auto* d = std::get_if<delta_event>(&e)) {
        if (generating_) generating_->text.resize(d->offset);
        if (generating_) generating_->text += d->text;
    } else if (const auto* done = std::get_if<generation_done>(&e)) {
        if (auto* m = tree_.find(done->message)) {
            m->view.content = generating_ ? generating_->text : std::string();
            m->view.finish_reason = done->finish_reason;
            m->usage = done->usage;
        }
        generating_.reset();
    } else if (const auto* failed = std::get_if<generation_error>(&e)) {
        if (auto* m = tree_.find(failed->message)) {
            m->view.content = generating_ ? generating_->text : std::string();
            m->view.err = failed->err;
        }
        generating_.reset();
    }
}

std::shared_ptr<snapshot_event> session_core::snapshot() const {
    auto s = std::make_shared<snapshot_event>();
    s->info = info_;
    for (const auto& m : tree_.messages()) s->messages.push_back(m.view);
    s->leaf = tree_.leaf();
    s->generating = generating_;
    return s;
}

void session_core::answer_snapshot(const snapshot_request& q) {
    // Without the vocabulary the journal cannot be read: what a client saw before the restart would be missing.
    if (!unfinished_.empty() && !setup_.peers.model) return held_snapshots_.push_back(q.token);
    self_->send(setup_.gateway, snapshot_ready{info_.id, q.token, snapshot()});
}

void session_core::peers_changed(const session_peers& p) {
    const bool new_store = p.store != setup_.peers.store;
    setup_.peers = p;
    // What the dead store had not acknowledged is written again; writes are idempotent.
    if (new_store) out_.each_unsettled([this](const out_item& i) { send_write(i); });
    resume_unfinished();
    if (setup_.peers.model)
        for (const auto token : std::exchange(held_snapshots_, {})) answer_snapshot({token});
}

void session_core::became_idle() {
    phase_ = phase::idle;
    run_.reset();
    self_->send(setup_.gateway, session_status{info_.id, {}, generation_, false});
    if (setup_.ephemeral) self_->quit();
}

void session_core::retire() {
    retiring_ = true;
    if (phase_ == phase::idle && out_.empty() && unfinished_.empty()) self_->quit();
}

void session_core::maybe_crash() {
    if (!setup_.fault || setup_.fault->load() < 0) return;
    if (setup_.fault->fetch_sub(1) == 0) throw std::runtime_error("injected fault");
}

namespace {

caf::behavior session_behavior(session_self* self) {
    auto* core = self->state.core.get();
    return {
        [core](const client_command& c) { std::visit([&](auto& body) { core->handle(body); }, *c.body); },
        [core](const generation_position& m) { core->scheduler_says(m); },
        [core](const prompt_progress& m) { core->scheduler_says(m); },
        [core](const generation_tokens& m) {
            core->maybe_crash();
            core->scheduler_says(m);
        },
        [core](const generation_stalled& m) { core->scheduler_says(m); },
        [core](const generation_moving& m) { core->scheduler_says(m); },
        [core](const generation_finished& m) { core->scheduler_says(m); },
        [core](const store_ack& a) { core->acknowledged(a); },
        [core](const session_peers& p) { core->peers_changed(p); },
        [core](const snapshot_request& q) { core->answer_snapshot(q); },
        [core](retire_session) { core->retire(); },
        [core](timer_atom, std::uint64_t serial) { core->timer(serial); },
    };
}

}  // namespace

caf::behavior session_actor(session_self* self, std::shared_ptr<const session_setup> setup) {
    self->set_exception_handler([](std::exception_ptr&) -> caf::error { return caf::sec::runtime_error; });
    self->state.core = std::make_unique<session_core>(self, *setup);
    return session_behavior(self);
}

}  // namespace troupe::actors
