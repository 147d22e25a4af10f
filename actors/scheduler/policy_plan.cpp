// What the next step holds: who starts, decode rows first, then prompt chunks within the time budget, and room made for
// them.
#include <algorithm>
#include <tuple>

#include "actors/scheduler/policy.hpp"
#include "core/check.hpp"
#include "core/limits.hpp"

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t admission_chunk = 64;    // prompt tokens of a step, for sizing windows at admission
constexpr std::int64_t least_chunk_beside = 4;  // prompt tokens a step takes at least beside decoding streams ...
constexpr std::int64_t least_chunk_alone =
    32;                             // ... and with nobody to disturb: below, weights are read for too few rows
constexpr int mixed_in_a_row = 32;  // then a step without prompt rows, so that what a budget is a share of stays known
constexpr auto starves_after = 5s;  // then nobody younger takes the memory a request waits for
constexpr int most_refused_a_plan = 32;  // each costs a search in the cache
constexpr std::int64_t least_shared_prefill = 64;
constexpr auto memory_retry = 100ms;

}  // namespace

entry* scheduler_policy::suspect() const {
    entry* first = nullptr;
    for (const auto& [id, e] : entries_)
        if (e->deaths >= 2 && e->is != phase::ending && (!first || e->arrival < first->arrival)) first = e.get();
    return first;
}

std::size_t scheduler_policy::depth() const {
    return trial_ ? 1 : static_cast<std::size_t>(std::min(settings_.run_ahead, bounds_.run_ahead));
}

std::int64_t scheduler_policy::max_seqs() const { return std::min(settings_.max_seqs, bounds_.max_seqs); }

std::int64_t scheduler_policy::max_rows() const { return std::min<std::int64_t>(info_->max_rows, bounds_.max_rows); }

/// While there are suspects, one of them runs alone.
bool scheduler_policy::may_run(const entry& e) const {
    return e.active() && (!trial_ || trial_ == &e) && static_cast<std::size_t>(e.k) < depth();
}

std::int64_t scheduler_policy::n_active() const {
    return std::count_if(running_.begin(), running_.end(), [](const entry* e) { return e->active(); });
}

std::optional<plan> scheduler_policy::next_plan(steady_time now) {
    if (!info_) return std::nullopt;
    kv_->set_now(now);
    serve_loads(now);
    kv_->set_costs(costs_.token_ms(), costs_.depth_ms());
    if (suspect())
        admit_trial(now);
    else
        admit(now);
    trial_ = suspect();
    if (in_flight_.size() >= depth()) return std::nullopt;
    for (entry* e : running_) {
        if (!e->active()) continue;
        kv_->trim(e->kv, e->n_sub, false);
        e->plan_pos = e->n_sub;
    }
    plan p;
    sent_plan sent;
    p.epoch = epoch_;
    p.id = sent.id = next_plan_;
    kv_->pack();
    add_decode_rows(p, sent, now);
    add_prompt_rows(p, sent, now);
    commit_ahead();
    take_tables(p, sent);
    if (p.rows.empty() && closes_.empty() && !kv_->has_ops() && jobs_.empty()) {
        if (in_flight_.empty() && !entries_.empty()) retry_later(now);
        return std::nullopt;
    }
    ++next_plan_;
    ++counters_.plans;
    p.closes = std::exchange(closes_, {});
    p.jobs = std::exchange(jobs_, {});
    p.ops = sent.ops = kv_->take_ops();
    counters_.blocks_moved += kv_->take_blocks_moved();
    for (const kv_op& op : p.ops) counters_.segments_released += op.kind == kv_op_kind::release_segment;
    in_flight_.push_back(std::move(sent));
    retry_at_.reset();
    return p;
}

void scheduler_policy::retry_later(steady_time now) {
    retry_at_ = now + memory_retry;
    if (kv_->commits_blocked(now)) retry_at_ = std::max(*retry_at_, kv_->blocked_until());
}

// ---- starting

void scheduler_policy::admit_trial(steady_time now) {
    entry& trial = *suspect();
    if (trial.is != phase::queued || (room_for(trial) && start(trial, now))) return;
    // Those that were cleared before it stand still anyhow.
    const auto other = std::find_if(running_.rbegin(), running_.rend(), [](const entry* e) { return e->active(); });
    if (other != running_.rend()) evict(**other, "preempted", now);
}

void scheduler_policy::admit(steady_time now) {
    if (waiting_.empty() || n_active() >= max_seqs()) return;
    int refused = 0;
    for (entry* e : admission_order(now)) {
        if (n_active() >= max_seqs() || refused >= most_refused_a_plan) return;
        if (awaits_load(*e, now)) continue;
        if (behind_twin(*e)) {
            counters_.prefill_shared += !std::exchange(e->waited_for_twin, true);
            continue;
        }
        if (room_for(*e)) {
            start(*e, now);
            continue;
        }
        ++refused;
        if (!e->unschedulable) e->unschedulable = now;
        // One that ran before gave its memory to older ones; newcomers would only take it away again.
        if (e->ran || now - *e->unschedulable > starves_after) return;
    }
}

/// What the active sequences will still take to hold the tokens known now and one more.
block_need scheduler_policy::outstanding() const {
    block_need sum(kv_->layout().groups.size(), 0);
    for (const entry* e : running_) {
        if (!e->active()) continue;
        const block_need whole = kv_->need(e->known() + 1, 0, admission_chunk);
        for (std::size_t g = 0; g < sum.size(); ++g) {
            const auto& table = e->kv.groups[g];
            sum[g] += std::max<std::int64_t>(0, whole[g] - static_cast<std::int64_t>(table.blocks.size() - table.live));
        }
    }
    return sum;
}

/// Memory that is committed only when it is needed comes a step or two late, and streams would stand still until then.
void scheduler_policy::commit_ahead() {
    block_need more = outstanding();
    for (auto& n : more) n += n_active();  // the next block of each
    kv_->prepare(more);
}

bool scheduler_policy::room_for(const entry& e) const {
    block_need more = outstanding();
    const std::int64_t active = n_active();
    // One that was preempted often starts only when nothing can drive it out again.
    const bool sure = e.preemptions >= limits::max_preemptions;
    const std::int64_t length = std::min(sure ? e.limit : e.known() + 1, std::max(sequence_limit(), e.known()));
    const block_need mine = kv_->need(length, 0, admission_chunk);
    for (std::size_t g = 0; g < more.size(); ++g) more[g] += mine[g] + (active > 0 ? active + 1 : 0);
    if (kv_->fits(more)) return true;
    const auto found = kv_->find(e.tokens, e.known() - 1);
    for (std::size_t g = 0; g < more.size(); ++g) {
        // Blocks that only the cache holds are both what it finds and what could be evicted; those in use are a gain.
        std::int64_t in_use = 0;
        for (const auto* n : found.path)
            in_use += n->blocks[g] != no_block && !kv_->pool().only_cached(g, n->blocks[g]);
        more[g] -= std::min(in_use, mine[g]);
    }
    return kv_->fits(more);
}

/// Somebody computes most of the same prompt right now: it will be in the cache in a moment.
bool scheduler_policy::behind_twin(const entry& e) const {
    for (const entry* r : running_) {
        const bool will_publish = r->active() && !r->sampled && r->publish && !e.request.params.wants_whole_prompt();
        if (!will_publish) continue;
        const auto differ = std::mismatch(e.tokens.begin(), e.tokens.end(), r->tokens.begin(), r->tokens.end()).first;
        const std::int64_t shared = (differ - e.tokens.begin()) / model::block_tokens * model::block_tokens;
        if (shared < least_shared_prefill || 2 * shared < r->target) continue;
        if (shared >= kv_->find(e.tokens, e.known() - 1).n_tokens() + least_shared_prefill) return true;
    }
    return false;
}

/// From queued to prefill. True also if it ended at once.
bool scheduler_policy::start(entry& e, steady_time now) {
    const std::int64_t longest = sequence_limit();
    if (e.known() > longest) {
        const bool memory = e.known() <= info_->n_ctx;
        fail(e, memory ? errc::out_of_memory : errc::context_length_exceeded,
            "a sequence of " + std::to_string(e.known()) + " tokens is longer than " + std::to_string(longest), now);
        return true;
    }
    e.limit = std::min(e.limit, longest);
    const auto& params = e.request.params;
    const bool measures = params.measures() && !e.first_token;
    if (e.known() >= e.limit && !measures) {
        finish_entry(e, finish::length, {}, now);
        return true;
    }
    e.prompt_scores.clear();
    const bool from_start = measures && params.wants_whole_prompt();
    e.n_sub = e.kv_ok = kv_->start(e.kv, e.tokens, from_start ? 0 : e.known() - 1);
    e.kv.keep = e.request.keep;
    e.load = 0;
    e.seq = next_seq_++;
    e.opened = e.sampled = false;
    e.publish = true;
    e.target = e.known();
    e.plan_pos = e.n_sub;
    e.k = 0;
    e.is = phase::prefill;
    e.unschedulable.reset();
    e.position = 0;
    waiting_.erase(std::find(waiting_.begin(), waiting_.end(), &e));
    running_.insert(std::upper_bound(
                        running_.begin(), running_.end(), &e, [](auto* a, auto* b) { return a->arrival < b->arrival; }),
        &e);
    if (!e.ran) {
        e.ran = true;
        e.started = now;
        e.cached = std::min(e.n_sub, e.n_prompt);
        observed_.queue_ms.push_back(to_ms(now - e.submitted));
        counters_.cache_hit_tokens += static_cast<std::uint64_t>(e.n_sub);
        counters_.cache_miss_tokens += static_cast<std::uint64_t>(e.known() - e.n_sub);
        charge(e, e.known() - e.n_sub);
        e.told_progress = now;
        notices_.push_back(prompt_progress{e.request.id, e.cached, e.n_prompt, e.cached});
    }
    shares_.begin(e.request.client_key, e.request.session);
    return true;
}

// ---- rows

void scheduler_policy::add_row(plan& p, sent_plan& sent, entry& e, std::int64_t n, bool sample) {
    if (!e.opened) {
        sequence_open open{e.seq, pack_ids(e.tokens), e.n_prompt, e.request.params, e.request.watch_text, e.request.mu};
        open.params.max_tokens = std::max<std::int64_t>(1, e.limit - e.n_prompt);
        p.opens.push_back(std::move(open));
        e.opened = true;
    }
    const auto pos = static_cast<std::int32_t>(e.n_sub), count = static_cast<std::int32_t>(n);
    p.rows.push_back({e.seq, pos, count, sample, {}});
    sent.rows.push_back({e.request.id, e.seq, pos, count, sample, e.is == phase::prefill});
    e.n_sub += n;
    ++e.k;
    if (e.is == phase::prefill && sample) e.is = phase::decode;
}

void scheduler_policy::add_decode_rows(plan& p, sent_plan& sent, steady_time now) {
    const auto oldest_first = running_;
    for (entry* e : oldest_first) {
        if (static_cast<std::int64_t>(p.rows.size()) >= max_rows()) return;
        // The row at a position makes the token after it.
        if (e->is != phase::decode || !may_run(*e) || e->n_sub >= e->limit - 1) continue;
        if (blocks_for(*e, e->n_sub + 1, now)) add_row(p, sent, *e, 1, true);
    }
}

double scheduler_policy::prompt_budget_ms(bool somebody_decodes) const {
    const auto whole = static_cast<double>(settings_.step_budget_ms);
    if (!somebody_decodes || costs_.decode_ms() == 0) return whole;
    return std::min(whole, prompt_share_.of_decode() * costs_.decode_ms());
}

void scheduler_policy::add_prompt_rows(plan& p, sent_plan& sent, steady_time now) {
    std::vector<entry*> order;
    bool somebody_decodes = false;
    for (entry* e : running_) {
        somebody_decodes = somebody_decodes || e->is == phase::decode;
        if (e->is == phase::prefill && may_run(*e)) order.push_back(e);
    }
    if (order.empty()) return;
    if (somebody_decodes && ++mixed_plans_ > mixed_in_a_row) {
        mixed_plans_ = 0;
        return;
    }
    std::stable_sort(order.begin(), order.end(), [&](const entry* a, const entry* b) {
        const auto rank = [&](const entry* e) {
            const auto& [client, session] = std::tie(e->request.client_key, e->request.session);
            return std::tuple{waits_as_batch(*e, now), shares_.served(client), shares_.served(client, session)};
        };
        return rank(a) < rank(b);
    });
    double left_ms = prompt_budget_ms(somebody_decodes);
    std::int64_t left_rows = max_rows() - static_cast<std::int64_t>(p.rows.size());
    std::int64_t least = somebody_decodes ? least_chunk_beside : least_chunk_alone;
    for (entry* e : order) {
        if (!may_run(*e)) continue;  // driven out by one before it
        std::int64_t n = costs_.chunk(left_ms, e->n_sub, least, std::min(e->target - e->n_sub, left_rows));
        if (n <= 0) return;
        if (!blocks_for(*e, e->n_sub + n, now)) {
            if (!e->active()) continue;
            for (const auto& table : e->kv.groups)
                n = std::min(n, static_cast<std::int64_t>(table.blocks.size()) * model::block_tokens - e->n_sub);
            if (n <= 0) continue;
        }
        left_ms -= costs_.prompt_ms(n, e->n_sub);
        left_rows -= n;
        least = 0;
        add_row(p, sent, *e, n, e->n_sub + n == e->target);
    }
}

// ---- room

bool scheduler_policy::blocks_for(entry& e, std::int64_t end, steady_time now) {
    using got = kv_manager::got;
    got r = kv_->extend(e.kv, end);
    if (r == got::short_) {
        for (entry* other : running_)
            if (other->active()) kv_->trim(other->kv, other->plan_pos, true);
        r = kv_->extend(e.kv, end);
    }
    if (r == got::short_) {
        make_room(e, now);
        if (e.active()) r = kv_->extend(e.kv, end);
    }
    return r == got::all;
}

/// The youngest goes, be it the one that asks; the oldest always gets on.
void scheduler_policy::make_room(entry& e, steady_time now) {
    if (std::any_of(running_.begin(), running_.end(), [](const entry* x) { return !x->active(); }))
        return;  // on its way
    const char* reason = kv_->commits_blocked(now) ? "memory" : "preempted";
    const auto spared = [](const entry* x) { return x->preemptions >= limits::max_preemptions; };
    entry* victim = running_.back();
    for (std::size_t i = running_.size(); i-- > 1 && spared(victim);)
        if (!spared(running_[i])) victim = running_[i];
    if (running_.size() == 1) reason = "memory";
    if (victim == &e) retry_later(now);
    evict(*victim, reason, now);
}

void scheduler_policy::evict(entry& e, const char* reason, steady_time now) {
    CHECK(e.active());
    ++counters_.preemptions;
    ++e.preemptions;
    e.is = phase::evicting;
    stall(e, reason, now);
    if (e.k == 0) settle(e, now);
}

}  // namespace troupe::actors
