// What a finished step means: tokens accepted, sequences ended, blocks published and given back.
#include <algorithm>
#include <utility>

#include "actors/scheduler/policy.hpp"
#include "core/check.hpp"

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;

constexpr auto progress_every = 250ms;
constexpr double moving = 0.2;
constexpr std::int64_t decode_weight = 2;  // a decoded token costs a step about twice a prompt token
constexpr int most_voids = 5;              // rows left out in a row, without a word why

const row_result* result_of(const plan_result& r, std::size_t i, sequence_id seq, std::int32_t pos) {
    const auto is = [&](const row_result& x) { return x.seq == seq && x.pos == pos; };
    if (i < r.rows.size() && is(r.rows[i])) return &r.rows[i];
    const auto found = std::find_if(r.rows.begin(), r.rows.end(), is);
    return found == r.rows.end() ? nullptr : &*found;
}

}  // namespace

void scheduler_policy::done(const plan_result& r, steady_time now) {
    ++counters_.results;
    if (!info_ || r.epoch != epoch_ || in_flight_.empty() || in_flight_.front().id != r.plan) {
        ++counters_.results_dropped;
        return;
    }
    const sent_plan sent = std::move(in_flight_.front());
    in_flight_.pop_front();
    for (std::size_t i = 0; i < sent.ops.size(); ++i) {
        const bool ok = i < r.ops_ok.size() && r.ops_ok[i] != 0;
        counters_.commits_failed += !ok && sent.ops[i].kind == kv_op_kind::commit_segment;
        kv_->op_done(sent.ops[i], ok, now);
    }
    observe(sent, r);
    for (std::size_t i = 0; i < sent.rows.size(); ++i)
        row_done(sent.rows[i], result_of(r, i, sent.rows[i].seq, sent.rows[i].pos), now);
}

void scheduler_policy::observe(const sent_plan& sent, const plan_result& r) {
    std::int64_t decode = 0, prompt = 0;
    double depth = 0;
    for (std::size_t i = 0; i < sent.rows.size(); ++i) {
        const sent_row& row = sent.rows[i];
        const row_result* x = result_of(r, i, row.seq, row.pos);
        if (!x || x->status == row_status::void_row) continue;
        if (!row.prompt)
            ++decode;
        else
            prompt += row.n, depth += row.n * (row.pos + row.n / 2.0);
    }
    if (decode + prompt == 0) return;
    const double ms = static_cast<double>(r.step_us) / 1000;
    counters_.prompt_tokens += static_cast<std::uint64_t>(prompt);
    costs_.observe(decode, prompt, depth, ms);
    if (decode > 0 && prompt > 0) prompt_share_.observe(ms, costs_.decode_ms());
    observed_.steps.push_back({decode > 0, prompt > 0, ms});
}

void scheduler_policy::row_done(const sent_row& sent, const row_result* r, steady_time now) {
    entry* e = find(sent.id);
    if (!e || e->seq != sent.seq || e->is == phase::queued) {
        ++counters_.rows_dropped;
        return;
    }
    CHECK(e->k > 0);
    --e->k;
    const row_status status = r ? r->status : row_status::void_row;
    counters_.rows_void += status == row_status::void_row;
    if (e->is == phase::ending) {
        counters_.tokens_wasted += status == row_status::ok && sent.sample;
    } else if (status == row_status::not_finite) {
        ++counters_.non_finite;
        e->publish = false;
        fail(*e, errc::non_finite_logits, "the model's output was not finite", now);
    } else if (status == row_status::constraint_failed) {
        fail(*e, errc::constraint_failed,
            "the model's vocabulary cannot go on in the grammar here, or the grammar is too ambiguous", now);
    } else if (status == row_status::ok && sent.pos == e->kv_ok) {
        row_ok(*e, sent, *r, now);
    } else if (status == row_status::ok) {
        ++counters_.rows_dropped;
    } else if (e->active()) {
        // The executor left out a row of a living sequence: it starts again from what is known.
        if (++e->voids > most_voids)
            fail(*e, errc::internal, "the executor does not compute this request", now);
        else
            evict(*e, "memory", now);
    }
    e = find(sent.id);
    if (e && e->seq == sent.seq && e->is != phase::queued && !e->active() && e->k == 0) settle(*e, now);
}

void scheduler_policy::row_ok(entry& e, const sent_row& sent, const row_result& r, steady_time now) {
    e.kv_ok = sent.pos + sent.n;
    e.voids = 0;
    if (e.deaths > 0 && e.kv_ok >= e.death_end + tokens_to_clear) e.deaths = e.deaths_alone = 0;
    if (!e.first_token) {
        e.prompt_scores += r.prompt_scores;
        const bool last = sent.sample, due = !e.told_progress || now - *e.told_progress >= progress_every;
        if (sent.prompt && (last || due)) {
            e.told_progress = now;
            notices_.push_back(prompt_progress{e.request.id, std::min(e.kv_ok, e.n_prompt), e.n_prompt, e.cached});
        }
    }
    if (sent.sample && (r.sampled || r.ended)) token_done(e, r, now);
}

void scheduler_policy::token_done(entry& e, const row_result& r, steady_time now) {
    if (e.kv_ok != e.known()) {
        ++counters_.rows_dropped;
        return;
    }
    if (e.stalled) {
        const bool changed = !e.numerics_id.empty() && e.numerics_id != info_->numerics_id;
        notices_.push_back(
            generation_moving{e.request.id, static_cast<std::int64_t>(to_ms(now - *e.stalled)), changed});
        if (std::exchange(e.stalled_by_death, false)) {
            ++counters_.resumed;
            observed_.recovery_ms.push_back(to_ms(now - *e.stalled));
        }
        e.stalled.reset();
    }
    e.numerics_id = info_->numerics_id;
    const auto& ends = e.request.params.end_tokens;
    const bool end = r.ended && std::find(ends.begin(), ends.end(), r.token) != ends.end();
    const bool text = r.sampled && !end && e.known() < e.limit;
    generation_tokens out{e.request.id, e.n_acc()};
    if (!e.first_token) {
        observed_.first_token_ms.push_back(to_ms(now - e.submitted));
        e.first_token = now;
        out.prompt_scores = unpack_scores(std::exchange(e.prompt_scores, {}));
        out.embedding = unpack_floats(r.embedding);
    } else if (text) {
        observed_.inter_token_ms.push_back(to_ms(now - *e.last_token));
    }
    e.last_token = now;
    if (text) {
        e.tokens.push_back(r.token);
        out.tokens.push_back({r.token, r.logprob, r.top});
        out.mu = e.request.mu = r.mu;
        ++counters_.generated_tokens;
        charge(e, decode_weight);
    }
    const bool first_of_run = !std::exchange(e.sampled, true);
    publish(e);
    if (first_of_run) kv_->checkpoint(e.kv);
    if (text || !out.prompt_scores.empty() || !out.embedding.empty()) notices_.push_back(std::move(out));
    if (end) e.end_token = accepted_token{r.token, r.logprob, r.top};
    if (end || r.complete)
        finish_entry(e, finish::stop, {}, now);
    else if (r.ended || e.known() >= e.limit)
        finish_entry(e, finish::length, {}, now);
}

// ---- leaving

/// Only what a finite row was sampled after, and only positions whose tokens stand.
void scheduler_policy::publish(entry& e) {
    if (e.sampled && e.publish) kv_->publish(e.kv, e.tokens, std::min(e.kv_ok, e.known()));
}

/// No plan in flight has a row of it any more.
void scheduler_policy::settle(entry& e, steady_time now) {
    CHECK(e.k == 0 && (e.is == phase::ending || e.is == phase::evicting));
    publish(e);
    if (e.sampled && e.publish) kv_->checkpoint(e.kv);
    kv_->release(e.kv);
    if (e.opened) closes_.push_back(e.seq);
    running_.erase(std::find(running_.begin(), running_.end(), &e));
    shares_.end(e.request.client_key, e.request.session, now);
    if (e.is == phase::evicting)
        requeue(e, now);
    else
        forget(e);
}

void scheduler_policy::requeue(entry& e, steady_time now) {
    e.is = phase::queued;
    e.k = 0;
    e.opened = e.sampled = false;
    e.ready_since = now;
    enqueue(e);
}

void scheduler_policy::forget(entry& e) {
    shares_.leave(e.request.client_key, e.request.session);
    entries_.erase(e.request.id);
}

void scheduler_policy::fail(entry& e, errc code, std::string message, steady_time now) {
    finish_entry(e, finish::failed, troupe::fail(code, std::move(message)), now);
}

/// Tells the owner at once; the entry stays until its plans are back. It may be gone when this returns.
void scheduler_policy::finish_entry(entry& e, finish why, error err, steady_time now) {
    generation_finished done{e.request.id, why, std::move(err), e.n_acc(), {}, {}, e.end_token};
    done.usage = {e.n_prompt, e.n_acc(), e.cached};
    done.timings.queue_ms = to_ms(e.started.value_or(now) - e.submitted);
    if (e.started) {
        done.timings.prompt_ms = to_ms(e.first_token.value_or(now) - *e.started);
        done.timings.prompt_n = e.n_prompt - e.cached;
        const double lived = to_ms(now - *e.started);
        run_ms_ = run_ms_ == 0 ? lived : run_ms_ + moving * (lived - run_ms_);
    }
    if (e.first_token) done.timings.predicted_ms = to_ms(*e.last_token - *e.first_token);
    done.timings.predicted_n = e.n_acc();
    counters_.prompt_ms += done.timings.prompt_ms;
    counters_.generated_ms += done.timings.predicted_ms;
    observed_.requests.push_back({to_ms(now - e.submitted), done.usage, done.timings});
    switch (why) {
    case finish::stop:
        ++counters_.stopped, observed_.outcomes.push_back("stop");
        break;
    case finish::length:
        ++counters_.length, observed_.outcomes.push_back("length");
        break;
    case finish::cancelled:
        ++counters_.cancelled, observed_.outcomes.push_back("cancelled");
        break;
    case finish::failed:
        ++counters_.failed, observed_.outcomes.emplace_back(troupe::info(done.err.code).name);
        break;
    }
    notices_.push_back(std::move(done));
    if (e.is == phase::queued) {
        waiting_.erase(std::find(waiting_.begin(), waiting_.end(), &e));
        return forget(e);
    }
    e.is = phase::ending;
    if (e.k > 0)
        cancels_.push_back(e.seq);
    else
        settle(e, now);
}

}  // namespace troupe::actors
