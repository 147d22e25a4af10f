// The engine as engine_port: health, models, text tools, state and operator actions, asked through the desk actor.
#include <algorithm>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "actors/engine_impl.hpp"
#include "actors/state_report.hpp"
#include "core/limits.hpp"

namespace troupe::actors {
namespace json = boost::json;
namespace {

constexpr auto health_timeout = std::chrono::seconds(2);     // the supervisor bounds its own probe by one
constexpr auto restart_timeout = std::chrono::seconds(120);  // loading weights from a cold disk takes long

error loading() {
    auto e = fail(errc::not_ready, "the model is still loading");
    e.retry_after_ms = 1000;
    return e;
}

template <class T> auto pass_error(const answer<T>& done) {
    return [done](const caf::error& e) { done(from_caf_error(e)); };
}

}  // namespace

void engine_impl::desk(std::function<void(caf::event_based_actor*, const engine_actors&)> run) {
    const std::shared_lock hold(gate_);
    if (!closed_) caf::anon_send(desk_, desk_task{std::move(run), actors_});
}

health_report engine_impl::as_a_whole(health_report h) const {
    const std::lock_guard lock(facts_->mutex);
    if (facts_->draining) {
        h.status = "down";
        h.reasons.push_back("draining: no new work is taken");
    }
    if (!facts_->serving && (h.status == "ok" || h.status == "degraded")) {
        h.status = "loading";
        h.reasons.push_back("the vocabulary is being read");
    }
    if (facts_->persistence.empty()) return h;
    h.reasons.push_back("persistence: " + facts_->persistence);
    if (h.status == "ok" || h.status == "sleeping") h.status = "degraded";
    return h;
}

void engine_impl::health(reply<health_report> reply_to) {
    answer<health_report> done(std::move(reply_to));
    desk([this, done](caf::event_based_actor* self, const engine_actors& a) {
        self->request(a.supervisor, health_timeout, health_atom::value)
            .then([this, done](const health_report& h) { done(as_a_whole(h)); },
                [this, done](const caf::error&) {
                    health_report h;
                    h.status = h.level = "down";
                    h.round_trip = false;
                    h.reasons = {"the supervisor does not answer"};
                    done(as_a_whole(h));
                });
    });
}

model_card engine_impl::card(const text_model& text) const {
    auto c = text.card;
    const std::lock_guard lock(facts_->mutex);
    if (facts_->model) c.n_ctx = facts_->model->n_ctx;
    return c;
}

void engine_impl::models(reply<std::vector<model_card>> done) {
    std::shared_ptr<const text_model> text;
    {
        const std::lock_guard lock(facts_->mutex);
        if (facts_->model) text = facts_->text;
    }
    done(text ? std::vector<model_card>{card(*text)} : std::vector<model_card>{});
}

template <class T> std::shared_ptr<const text_model> engine_impl::text_or(const answer<T>& done) const {
    const std::lock_guard lock(facts_->mutex);
    if (!facts_->text || !facts_->tokenizer) done(loading());
    return facts_->tokenizer ? facts_->text : nullptr;
}

void engine_impl::tokenize(
    std::string text, bool add_special, bool parse_special, reply<std::vector<token_piece>> reply_to) {
    answer<std::vector<token_piece>> done(std::move(reply_to));
    const auto m = text_or(done);
    if (!m) return;
    desk([this, done, m, text = std::move(text), add_special, parse_special](
             caf::event_based_actor* self, const engine_actors&) {
        const auto pieces = [done, m](const rendered_chat& r) {
            std::vector<token_piece> out;
            for (auto id : *r.ids) out.push_back({id, std::string(m->tools->vocabulary->piece(id, true))});
            done(std::move(out));
        };
        self->request(tokenizer(), limits::actor_request_timeout, encode_atom::value, text, add_special, parse_special)
            .then(pieces, pass_error(done));
    });
}

caf::actor engine_impl::tokenizer() const {
    const std::lock_guard lock(facts_->mutex);
    return facts_->tokenizer;
}

caf::actor engine_impl::store() const {
    const std::lock_guard lock(facts_->mutex);
    return facts_->store;
}

caf::actor engine_impl::compactor() const {
    const std::lock_guard lock(facts_->mutex);
    return facts_->compactor;
}

void engine_impl::detokenize(std::vector<std::int32_t> ids, reply<std::string> reply_to) {
    answer<std::string> done(std::move(reply_to));
    const auto m = text_or(done);
    if (!m) return;
    const auto& v = *m->tools->vocabulary;
    model::utf8_stream utf8;
    std::string out;
    for (auto id : ids) {
        if (id < 0 || id >= v.n_tokens())
            return done(fail(errc::invalid_request,
                fmt::format("tokens has id {}, which the vocabulary does not have", id), "tokens"));
        out += utf8.push(v.piece(id, true));
    }
    done(out + utf8.flush());
}

void engine_impl::apply_template(
    std::vector<chat_message> messages, std::string kwargs_json, reply<std::string> reply_to) {
    answer<std::string> done(std::move(reply_to));
    if (!text_or(done)) return;
    desk([this, done, r = render_chat{std::move(messages), std::move(kwargs_json), true}](
             caf::event_based_actor* self, const engine_actors&) {
        self->request(tokenizer(), limits::actor_request_timeout, r)
            .then([done](const rendered_chat& x) { done(x.text); }, pass_error(done));
    });
}

void engine_impl::state(reply<std::string> reply_to) {
    answer<std::string> done(std::move(reply_to));
    desk([this, done](caf::event_based_actor* self, const engine_actors& a) {
        gather_state(self,
            {{"gateway", a.gateway}, {"scheduler", a.scheduler}, {"supervisor", a.supervisor},
                {"tokenizer", tokenizer()}, {"store", store()}, {"compactor", compactor()}},
            [this, done](
                std::map<std::string, json::object> parts) { done(admin_state(std::move(parts), settings_)); });
    });
}

void engine_impl::props(reply<std::string> reply_to) {
    answer<std::string> done(std::move(reply_to));
    const auto m = text_or(done);
    if (!m) return;
    const auto sleeping = [this] {
        const std::lock_guard lock(facts_->mutex);
        return facts_->sleeping;
    };
    done(props_json(card(*m), settings_, sleeping()));
}

void engine_impl::slots(reply<std::string> reply_to) {
    answer<std::string> done(std::move(reply_to));
    const auto m = text_or(done);
    if (!m) return;
    desk([this, done, n_ctx = card(*m).n_ctx](caf::event_based_actor* self, const engine_actors& a) {
        gather_state(
            self, {{"scheduler", a.scheduler}}, [this, done, n_ctx](std::map<std::string, json::object> parts) {
                done(slots_json(parts["scheduler"], settings_.max_seqs, n_ctx));
            });
    });
}

void engine_impl::arm_fault(fault_spec spec, reply<bool> reply_to) {
    answer<bool> done(std::move(reply_to));
    if (!settings_.fault_injection)
        return done(fail(errc::forbidden, "faults can only be armed in an engine started with --fault-injection"));
    desk([this, done, spec = std::move(spec)](caf::event_based_actor* self, const engine_actors& a) {
        const auto good = [done](bool armed) { done(armed); };
        if (spec.target == "executor")
            self->request(a.supervisor, limits::actor_request_timeout, spec).then(good, pass_error(done));
        else
            self->request(
                    a.gateway, limits::actor_request_timeout, spec.target, actor_fault{spec.kind, spec.after_steps})
                .then(good, pass_error(done));
    });
}

void engine_impl::admin(std::string action, reply<std::string> reply_to) {
    answer<std::string> done(std::move(reply_to));
    if (action != "restart" && action != "compact" && action != "drain" && action != "unload")
        return done(fail(errc::not_found, "there is no such action", "action"));
    desk([this, done, action](caf::event_based_actor* self, const engine_actors& a) {
        if (action == "restart") {
            self->request(a.supervisor, restart_timeout, restart_atom::value)
                .then(
                    [done](bool ok) {
                        done(json::serialize(json::object{{"restarted", ok}}));
                    },
                    pass_error(done));
        } else if (action == "unload") {
            self->request(a.supervisor, limits::actor_request_timeout, unload_atom::value)
                .then(
                    [done](bool ok) {
                        done(json::serialize(json::object{{"unloaded", ok}}));
                    },
                    pass_error(done));
        } else if (action == "compact") {
            self->request(a.scheduler, limits::actor_request_timeout, compact_atom::value)
                .then([done](const std::string& text) { done(text); }, pass_error(done));
        } else {
            {
                const std::lock_guard lock(facts_->mutex);
                facts_->draining = true;
            }
            caf::anon_send(a.scheduler, drain_atom::value);
            caf::anon_send(a.gateway, gateway_drain{[done] { done(std::string(R"({"drained":true})")); }});
        }
    });
}

void engine_impl::subscribe_health(client_ptr client) {
    const std::shared_lock hold(gate_);
    if (!closed_) caf::anon_send(actors_.gateway, health_subscription{std::move(client)});
}

}  // namespace troupe::actors
