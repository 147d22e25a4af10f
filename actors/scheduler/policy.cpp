// Requests coming and going: admission to the queue, cancel, stop, time-outs, positions.
#include "actors/scheduler/policy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "core/check.hpp"
#include "core/limits.hpp"

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;

constexpr auto batch_ages_after = 30s;  // then it counts as interactive
constexpr std::int64_t pressure_retry_ms = 5000;
constexpr std::int64_t default_retry_ms = 1000, longest_retry_ms = 60'000;

bool earlier(const entry* a, const entry* b) { return a->arrival < b->arrival; }

/// Waiting requests by client and session.
class admission_queue {
 public:
    void push(entry* e) {
        client& c = clients_[e->request.client_key];
        c.waits_since = std::min(c.waits_since, e->ready_since);
        line& l = c.sessions[e->request.session];
        l.waits_since = std::min(l.waits_since, e->ready_since);
        l.requests.push_back(e);
    }
    /// Everything, in order.
    void take(std::vector<entry*>& order, const fair_share& shares, steady_time now) {
        for (auto& [name, c] : clients_) {
            c.at = shares.of(name, c.waits_since, now);
            for (auto& [session, l] : c.sessions) l.at = shares.of(name, session, l.waits_since, now);
        }
        std::uint64_t turn = std::numeric_limits<std::uint64_t>::max() / 2;
        while (!clients_.empty()) {
            const auto c = next(clients_);
            const auto s = next(c->second.sessions);
            entry* e = s->second.requests.front();
            order.push_back(e);
            s->second.requests.pop_front();
            picked(c->second.at, shares.served(c->first), *e, ++turn);
            picked(s->second.at, shares.served(c->first, s->first), *e, turn);
            if (s->second.requests.empty()) c->second.sessions.erase(s);
            if (c->second.sessions.empty()) clients_.erase(c);
        }
    }

 private:
    struct line {
        fair_share::standing at;
        steady_time waits_since = steady_time::max();
        std::deque<entry*> requests;
        std::uint64_t oldest() const { return requests.front()->arrival; }
    };
    struct client {
        fair_share::standing at;
        steady_time waits_since = steady_time::max();
        std::map<std::string, line> sessions;
        std::uint64_t oldest() const {
            return std::min_element(sessions.begin(), sessions.end(), [](const auto& a, const auto& b) {
                return a.second.oldest() < b.second.oldest();
            })->second.oldest();
        }
    };
    template <class Map> static typename Map::iterator next(Map& lines) {
        return std::min_element(lines.begin(), lines.end(), [](const auto& a, const auto& b) {
            return std::pair{a.second.at, a.second.oldest()} < std::pair{b.second.at, b.second.oldest()};
        });
    }
    /// What waiting had gained it is gone with its turn.
    static void picked(fair_share::standing& at, std::int64_t served, const entry& e, std::uint64_t turn) {
        at = {std::max(at.level, served) + e.known(), turn};
    }
    std::map<std::string, client> clients_;
};

}  // namespace

policy_settings settings_from(const config& c) {
    policy_settings s;
    s.max_seqs = static_cast<int>(std::clamp<std::int64_t>(c.max_seqs, 1, limits::max_step_seqs));
    s.run_ahead = static_cast<int>(std::clamp<std::int64_t>(c.run_ahead, 1, limits::max_run_ahead));
    s.step_budget_ms = std::max<std::int64_t>(1, c.step_budget_ms);
    s.queue_limit = std::max<std::int64_t>(1, c.queue_limit);
    s.queue_timeout_s = std::max<std::int64_t>(1, c.queue_timeout);
    s.kv_memory = c.kv_memory;
    return s;
}

generation_id about(const notice& n) {
    return std::visit([](const auto& x) { return x.id; }, n);
}

scheduler_policy::scheduler_policy(policy_settings settings) : settings_(settings) {}

entry* scheduler_policy::find(generation_id id) {
    const auto found = entries_.find(id);
    return found == entries_.end() ? nullptr : found->second.get();
}

std::int64_t scheduler_policy::n_waiting() const {
    return std::count_if(waiting_.begin(), waiting_.end(), [](const entry* e) { return !e->ran; });
}

std::optional<error> scheduler_policy::refuse(const generation_request& r) const {
    if (draining_) return troupe::fail(errc::shutting_down, "the server is shutting down");
    if (entries_.count(r.id)) return troupe::fail(errc::conflict, "this generation is running already");
    if (!r.prompt || r.prompt->empty()) return troupe::fail(errc::invalid_request, "the prompt is empty", "prompt");
    const auto length = static_cast<std::int64_t>(r.prompt->size() + r.accepted.size());
    if (info_ && length > info_->n_ctx) {
        error e = troupe::fail(errc::context_length_exceeded, "the prompt is longer than the context");
        e.n_prompt_tokens = length;
        e.n_ctx = info_->n_ctx;
        return e;
    }
    if (info_ && length > sequence_limit())
        return troupe::fail(errc::out_of_memory, "a sequence of " + std::to_string(length) +
                                                     " tokens can never fit into KV memory, " +
                                                     std::to_string(sequence_limit()) + " can");
    if (r.resumed || !r.accepted.empty()) return std::nullopt;
    if (pressure_.refuse) {
        error e = troupe::fail(
            errc::out_of_memory, "the machine is short of memory: " + std::to_string(pressure_.available >> 20) +
                                     " MiB are left; no new work is begun");
        e.retry_after_ms = pressure_retry_ms;
        return e;
    }
    if (n_waiting() >= settings_.queue_limit) {
        error e = troupe::fail(errc::queue_full, "the queue is full");
        e.retry_after_ms = std::clamp(eta_ms(1).value_or(default_retry_ms), default_retry_ms, longest_retry_ms);
        return e;
    }
    return std::nullopt;
}

result<void> scheduler_policy::submit(generation_request r, steady_time now) {
    if (auto e = refuse(r)) {
        ++counters_.refused;
        return *e;
    }
    auto owned = std::make_unique<entry>();
    entry& e = *owned;
    e.arrival = next_arrival_++;
    e.n_prompt = static_cast<std::int64_t>(r.prompt->size());
    e.tokens = *r.prompt;
    e.tokens.insert(e.tokens.end(), r.accepted.begin(), r.accepted.end());
    e.limit = r.params.max_tokens < 0 ? std::numeric_limits<std::int64_t>::max() : e.n_prompt + r.params.max_tokens;
    e.submitted = e.ready_since = now;
    e.request = std::move(r);
    ++counters_.submitted;
    shares_.enter(e.request.client_key, e.request.session);
    entries_.emplace(e.request.id, std::move(owned));
    waiting_.push_back(&e);
    const bool nothing_to_do = e.known() >= e.limit && !e.request.params.measures();
    if (nothing_to_do) finish_entry(e, finish::length, {}, now);
    return {};
}

void scheduler_policy::enqueue(entry& e) {
    waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(), &e, earlier), &e);
}

void scheduler_policy::cancel(generation_id id, steady_time now) {
    entry* e = find(id);
    if (e && e->is != phase::ending) finish_entry(*e, finish::cancelled, {}, now);
}

void scheduler_policy::stop_at(generation_id id, std::int64_t n_accepted, steady_time now) {
    entry* e = find(id);
    if (!e || e->is == phase::ending) return;
    e->tokens.resize(static_cast<std::size_t>(e->n_prompt + std::clamp<std::int64_t>(n_accepted, 0, e->n_acc())));
    finish_entry(*e, finish::stop, {}, now);
}

void scheduler_policy::end_all(const error& e, steady_time now) {
    std::vector<entry*> open;
    for (const auto& [id, owned] : entries_)
        if (owned->is != phase::ending) open.push_back(owned.get());
    for (entry* x : open) finish_entry(*x, finish::failed, e, now);
}

// ---- waiting

bool scheduler_policy::waits_as_batch(const entry& e, steady_time now) const {
    return e.request.batch_priority && now - e.ready_since < batch_ages_after;
}

/// Those that ran before come first, by arrival. Then interactive ones before batch; of these the client that was
/// served least, of its sessions likewise, and of a session the oldest. What a request will cost counts as served when
/// it is picked, so that clients alternate.
std::vector<entry*> scheduler_policy::admission_order(steady_time now) const {
    std::vector<entry*> order;
    admission_queue queues[2];
    for (entry* e : waiting_) {
        if (e->ran)
            order.push_back(e);
        else
            queues[waits_as_batch(*e, now)].push(e);
    }
    for (auto& q : queues) q.take(order, shares_, now);
    return order;
}

std::vector<const entry*> scheduler_policy::queue_order(steady_time now) const {
    std::vector<const entry*> order;
    for (const entry* e : admission_order(now))
        if (!e->ran) order.push_back(e);
    return order;
}

std::optional<std::int64_t> scheduler_policy::eta_ms(std::int64_t position) const {
    if (run_ms_ <= 0 || !info_) return std::nullopt;
    const double places = static_cast<double>(std::max<std::size_t>(1, running_.size()));
    return static_cast<std::int64_t>(std::ceil(static_cast<double>(position) * run_ms_ / places));
}

void scheduler_policy::tell_positions(steady_time now) {
    if (n_waiting() == 0) {
        next_positions_.reset();
        return;
    }
    const bool untold =
        std::any_of(waiting_.begin(), waiting_.end(), [](const entry* e) { return !e->ran && !e->told_position; });
    if (next_positions_ && now < *next_positions_ && !untold) return;
    std::int64_t position = 0;
    for (const entry* waiting : queue_order(now)) {
        ++position;
        entry& e = *find(waiting->request.id);
        const bool soon = e.told_position && now - *e.told_position < limits::position_event_every;
        if (position == e.position || soon) continue;
        e.position = position;
        e.told_position = now;
        notices_.push_back(generation_position{e.request.id, position, eta_ms(position)});
    }
    if (!next_positions_ || now >= *next_positions_) next_positions_ = now + limits::position_event_every;
}

void scheduler_policy::time_out(steady_time now) {
    const auto longest = std::chrono::seconds(settings_.queue_timeout_s);
    const auto waiting = waiting_;
    for (entry* e : waiting) {
        // One that waits for the executor to come back is not failed: its client sees that it is paused.
        if (now - e->ready_since < longest || (e->ran && !info_)) continue;
        if (e->ran)
            fail(*e, errc::out_of_memory, "no memory became free for this answer to go on", now);
        else
            fail(*e, errc::queue_timeout, "waited longer than the queue allows", now);
    }
}

void scheduler_policy::tick(steady_time now) {
    time_out(now);
    tell_positions(now);
}

std::optional<steady_time> scheduler_policy::wakeup(steady_time now) const {
    std::optional<steady_time> first;
    const auto at = [&](steady_time t) { first = std::min(first.value_or(t), t); };
    for (const entry* e : waiting_)
        if (!e->ran || info_) at(e->ready_since + std::chrono::seconds(settings_.queue_timeout_s));
    for (const entry* e : waiting_)
        if (const auto t = load_deadline(*e)) at(*t);
    if (n_waiting() > 0) at(next_positions_.value_or(now + limits::position_event_every));
    if (retry_at_ && info_ && in_flight_.empty() && !entries_.empty()) at(*retry_at_);
    if (first) first = std::max(*first, now);
    return first;
}

void scheduler_policy::stall(entry& e, const char* reason, steady_time now) {
    if (e.stalled) return;
    e.stalled = now;
    notices_.push_back(generation_stalled{e.request.id, reason});
}

void scheduler_policy::check() const {
    std::vector<const sequence_kv*> tables;
    for (const entry* e : running_) {
        CHECK(e->is != phase::queued && e->k >= 0);
        CHECK(e->k > 0 || e->active(), "an entry that should be gone");
        tables.push_back(&e->kv);
    }
    for (const entry* e : waiting_) CHECK(e->is == phase::queued && e->k == 0 && e->kv.groups.empty());
    CHECK(waiting_.size() + running_.size() == entries_.size(), "an entry that is nowhere");
    for (const auto& [id, t] : transfers_) tables.push_back(&t->kv);
    std::map<sequence_id, int> flying;
    for (const sent_plan& p : in_flight_)
        for (const sent_row& r : p.rows) ++flying[r.seq];
    for (const entry* e : running_) CHECK(flying[e->seq] == e->k, "plans in flight");
    if (kv_) kv_->check(tables);
}

}  // namespace troupe::actors
