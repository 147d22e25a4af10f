#include "policy_watch.hpp"

#include "core/limits.hpp"

namespace troupe::actors::sim {
namespace {

using namespace std::chrono_literals;

constexpr auto longest_standstill = 60s;  // memory that is short for a while comes back sooner
constexpr double decode_weight = 2;

std::string who(generation_id id) { return "generation " + std::to_string(id) + ": "; }

}  // namespace

void policy_watch::submitted(const generation_request& r, const turn& t) {
    generation g;
    g.t = &t;
    g.client = r.client_key;
    g.n = static_cast<std::int64_t>(r.accepted.size());
    if (!generations_.emplace(r.id, std::move(g)).second) c_.wrong("an id was used twice");
    largest_ =
        std::max(largest_, static_cast<double>(r.prompt->size()) + decode_weight * static_cast<double>(t.max_tokens));
    changed_ = true;
}

// ---- what it says

void policy_watch::said(const notice& n, const scheduler_policy& p) {
    const generation_id id = about(n);
    const auto found = generations_.find(id);
    if (found == generations_.end()) return c_.wrong("a notice about nobody");
    generation& g = found->second;
    if (g.over) return c_.wrong(who(id) + "a notice after its end");
    changed_ = true;
    if (!std::holds_alternative<generation_position>(n)) moved_ = true;
    if (const auto* progress = std::get_if<prompt_progress>(&n)) {
        if (progress->processed > progress->total || progress->cached > progress->total)
            c_.wrong(who(id) + "progress beyond its end");
        if (!std::exchange(g.started, true))
            served_[g.client] += static_cast<double>(progress->total - progress->cached);
    } else if (const auto* t = std::get_if<generation_tokens>(&n)) {
        tokens(id, g, *t);
    } else if (std::holds_alternative<generation_stalled>(n)) {
        if (std::exchange(g.stalled, true)) c_.wrong(who(id) + "stalled twice");
    } else if (std::holds_alternative<generation_moving>(n)) {
        if (!std::exchange(g.stalled, false)) c_.wrong(who(id) + "moving, but was not stalled");
    } else if (const auto* f = std::get_if<generation_finished>(&n)) {
        finished(id, g, *f, p);
    }
}

void policy_watch::tokens(generation_id id, generation& g, const generation_tokens& t) {
    if (t.n_before != g.n) c_.wrong(who(id) + "tokens doubled or lost");
    if (g.stalled) c_.wrong(who(id) + "tokens while stalled");
    for (const accepted_token& a : t.tokens) {
        const auto i = static_cast<std::size_t>(g.n++);
        if (i >= g.t->tokens.size() || g.t->tokens[i] != a.id)
            return c_.wrong(who(id) + "another text from token " + std::to_string(i));
        served_[g.client] += decode_weight;
    }
}

void policy_watch::finished(generation_id id, generation& g, const generation_finished& f, const scheduler_policy& p) {
    g.over = true;
    must_end_.erase(id);
    if (f.n_tokens > g.n) c_.wrong(who(id) + "n_tokens");
    if (f.usage.prompt_tokens != static_cast<std::int64_t>(g.t->prompt.size()) ||
        f.usage.cached_tokens > f.usage.prompt_tokens)
        c_.wrong(who(id) + "usage");
    const auto whole = static_cast<std::int64_t>(g.t->tokens.size());
    const bool cut = p.sequence_limit() < c_.w.info.n_ctx ||
                     f.usage.prompt_tokens + whole > static_cast<std::int64_t>(c_.w.info.n_ctx);
    if (f.why == finish::length && f.n_tokens != whole && !cut) c_.wrong(who(id) + "ended by length before its length");
    if (f.why == finish::failed && f.err.code == errc::executor_poisoned) check_poison(id, g);
}

/// Thrice dead in the same stretch or at once behind it, twice of these alone: nothing less proves a culprit.
void policy_watch::check_poison(generation_id id, const generation& g) {
    const auto& d = g.deaths;
    if (d.size() < 3) return c_.wrong(who(id) + "called poison after " + std::to_string(d.size()) + " deaths");
    int alone = 0;
    for (std::size_t i = d.size() - 3; i < d.size(); ++i) {
        alone += d[i].alone;
        if (i + 1 < d.size() && d[i + 1].begin >= d[i].end + tokens_to_clear)
            c_.wrong(who(id) + "called poison, but it had got on since");
    }
    if (alone < 2) c_.wrong(who(id) + "called poison, but was hardly ever alone");
}

void policy_watch::executor_died(const std::string& reason, std::uint64_t plan_started) {
    const auto plan = plans_.find(plan_started);
    if (!reason.starts_with("killed") && plan != plans_.end())
        for (const row& r : plan->second) {
            auto& g = generations_.at(r.id);
            if (!g.over) g.deaths.push_back({r.pos, r.pos + r.n, plan->second.size() == 1});
        }
    plans_.clear();
    sequences_.clear();
}

// ---- what it plans

void policy_watch::planned(const plan& p, const scheduler_policy& policy) {
    for (const sequence_open& o : p.opens)
        for (const auto& [id, e] : policy.entries())
            if (e->seq == o.id) sequences_[o.id] = id;
    auto& rows = plans_[p.id];
    if (plans_.size() > 8) plans_.erase(plans_.begin());
    std::int64_t prompt = 0, decode = 0, all = 0;
    double prompt_ms = 0;
    for (const plan_row& r : p.rows) {
        const auto known = sequences_.find(r.seq);
        if (known == sequences_.end()) return c_.wrong("a row of a sequence that was never opened");
        if (generations_.at(known->second).over) c_.wrong(who(known->second) + "a row after its end");
        rows.push_back({known->second, r.pos, r.n});
        all += r.n;
        if (r.pos >= policy.entries().at(known->second)->target) {
            ++decode;
        } else {
            prompt += r.n;
            prompt_ms += policy.costs().prompt_ms(r.n, r.pos);
        }
    }
    if (all > c_.w.info.max_rows) c_.wrong("more rows than a step takes");
    if (static_cast<int>(policy.n_in_flight()) > c_.w.settings.run_ahead) c_.wrong("too many plans ahead");
    const auto most = static_cast<double>(c_.w.settings.step_budget_ms);
    const double decode_ms = policy.costs().decode_ms();
    const double budget = decode > 0 && decode_ms > 0 ? std::min(most, prompt_share::most * decode_ms) : most;
    if (prompt > (decode > 0 ? 4 : 32) && prompt_ms > 1.0001 * budget)
        c_.wrong("a step's prompt rows break its budget");
}

// ---- how it stands

void policy_watch::check(const scheduler_policy& p, bool executor_well) {
    for (const generation_id id : must_end_) c_.wrong(who(id) + "cancelled, but not over");
    must_end_.clear();
    std::int64_t active = 0;
    for (const auto& [id, e] : p.entries()) {
        generation& g = generations_.at(id);
        if (g.arrival == 0) g.arrival = e->arrival;
        if (g.arrival != e->arrival) c_.wrong(who(id) + "lost its place");
        const bool got_on = e->sampled && e->active() && e->kv_ok >= e->death_end + tokens_to_clear;
        if (e->deaths > 0 && got_on) c_.wrong(who(id) + "a suspect for ever");
        suspects_ = suspects_ || e->deaths > 1;
        active += e->active();
    }
    // Suspects run beside those that stand still for them.
    if (active > c_.w.settings.max_seqs && !suspects_) c_.wrong("more run than may");
    if (p.n_waiting() > c_.w.settings.queue_limit + c_.w.n_conversations)
        c_.wrong("the queue is longer than its limit");
    if (std::exchange(changed_, false)) check_fairness(p);
    const bool should_move = executor_well && p.up() && !p.entries().empty();
    standstill_ = should_move && !std::exchange(moved_, false) ? standstill_ + (c_.now() - checked_) : duration{};
    checked_ = c_.now();
    if (standstill_ > longest_standstill) {
        c_.wrong("nothing moves any more");
        standstill_ = {};
    }
}

bool policy_watch::waits(const scheduler_policy& p, const std::string& client) const {
    for (const auto& [id, e] : p.entries())
        if (e->is == phase::queued && !e->ran && !e->request.batch_priority && !e->unschedulable &&
            !e->waited_for_twin && e->request.client_key == client)
            return true;
    return false;
}

/// Of two clients that both wait all the time none is served much more than the other.
void policy_watch::check_fairness(const scheduler_policy& p) {
    std::set<std::string> waiting;
    bool suspects = !p.up();
    for (const auto& [id, e] : p.entries()) {
        suspects = suspects || e->deaths >= 2;
        if (!waiting.contains(e->request.client_key) && waits(p, e->request.client_key))
            waiting.insert(e->request.client_key);
    }
    if (suspects) waiting.clear();
    std::erase_if(lead_,
        [&](const auto& pair) { return !waiting.contains(pair.first.first) || !waiting.contains(pair.first.second); });
    const double most = largest_ * (c_.w.settings.max_seqs + 2);
    for (const auto& a : waiting)
        for (const auto& b : waiting) {
            if (a == b) continue;
            const double lead = served_[a] - served_[b];
            const double gained = lead - lead_.try_emplace({a, b}, lead).first->second;
            if (gained > most) c_.wrong(a + " is served much more than " + b + " though both wait");
        }
}

void policy_watch::check_end() {
    for (const auto& [id, g] : generations_)
        if (!g.over) c_.wrong(who(id) + "never ended");
}

}  // namespace troupe::actors::sim
