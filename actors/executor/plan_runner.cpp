#include "actors/executor/plan_runner.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <thread>

#include "core/check.hpp"
#include "core/limits.hpp"
#include "core/log.hpp"

namespace troupe::actors {
namespace {

using clock = std::chrono::steady_clock;

std::uint64_t ns_since(clock::time_point t) {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now() - t).count());
}

/// The ids of packed sequences, each followed by -1; ascending.
std::vector<std::vector<token_id>> breakers_of(const std::string& packed) {
    std::vector<std::vector<token_id>> breakers(1);
    for (const token_id id : unpack_ids(packed)) {
        if (id >= 0)
            breakers.back().push_back(id);
        else if (!breakers.back().empty())
            breakers.emplace_back();
    }
    breakers.pop_back();
    std::sort(breakers.begin(), breakers.end());
    return breakers;
}

model::sampling_params to_sampling(const sequence_params& p) {
    CHECK(p.bias_ids.size() == p.bias_values.size());
    model::sampling_params s{.temperature = p.temperature,
        .top_k = p.top_k,
        .top_p = p.top_p,
        .min_p = p.min_p,
        .typical_p = p.typical_p,
        .top_n_sigma = p.top_n_sigma,
        .min_keep = p.min_keep,
        .repeat_penalty = p.repeat_penalty,
        .penalty_last_n = p.penalty_last_n,
        .frequency_penalty = p.frequency_penalty,
        .presence_penalty = p.presence_penalty,
        .xtc_probability = p.xtc_probability,
        .xtc_threshold = p.xtc_threshold,
        .dynatemp_range = p.dynatemp_range,
        .dynatemp_exponent = p.dynatemp_exponent,
        .mirostat = p.mirostat,
        .mirostat_tau = p.mirostat_tau,
        .mirostat_eta = p.mirostat_eta,
        .dry = {p.dry_multiplier, p.dry_base, p.dry_allowed_length, p.dry_last_n, breakers_of(p.dry_breakers)},
        .seed = p.seed,
        .choice = p.choice,
        .n_logprobs = p.n_logprobs,
        .post_sampling_logprobs = p.post_sampling_logprobs};
    constexpr float banned = -std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < p.bias_ids.size(); ++i) {
        const bool bans = p.bias_values[i] <= static_cast<float>(ban_bias);
        s.logit_bias.emplace_back(p.bias_ids[i], bans ? banned : p.bias_values[i]);
    }
    return s;
}

std::vector<logprob_entry> entries_of(const std::vector<model::token_logprob>& top) {
    std::vector<logprob_entry> entries;
    entries.reserve(top.size());
    for (const auto& t : top) entries.push_back({t.id, t.logprob});
    return entries;
}

}  // namespace

plan_runner::plan_runner(backend& b, progress_page& page, fault_injector& faults,
    std::function<bool(sequence_id)> cancelled, std::function<void(const kv_job&)> begin)
    : backend_(b), page_(page), faults_(faults), cancelled_(std::move(cancelled)), begin_(std::move(begin)),
      n_vocab_(b.info().n_vocab), n_embd_(b.info().n_embd), max_rows_(b.info().max_rows),
      max_logits_(std::min(b.info().max_rows, limits::max_step_seqs)),
      logits_(new float[static_cast<std::size_t>(max_logits_) * static_cast<std::size_t>(n_vocab_)]) {
    CHECK(n_vocab_ > 0 && max_rows_ > 0);
    for (int i = 0; i < std::max(1, b.info().n_threads); ++i) samplers_.emplace_back(n_vocab_);
}

result<void> plan_runner::warm_up() {
    const auto& groups = backend_.layout().groups;
    const token_id token = 0;
    std::vector<model::block_id> blocks(groups.size());
    batch_.seqs.assign(1, {.tokens = {&token, 1}, .pos = 0});
    batch_.logit_rows.assign(1, 0);
    std::uint32_t committed = 0;
    result<void> memory;
    for (; committed < groups.size() && memory; ++committed) {
        memory = backend_.commit(committed);
        if (!memory) break;
        blocks[committed] = committed * groups[committed].blocks_per_segment;
        batch_.seqs[0].tables.emplace_back(&blocks[committed], 1);
    }
    if (memory) {
        n_rows_ = 1;
        backend_.begin_step();
        forward_pass();
        backend_.end_step();
    }
    for (std::uint32_t i = 0; i < committed; ++i) backend_.release(i);
    batch_ = {};
    return memory;
}

plan_result plan_runner::run(const plan& p) {
    const auto start = clock::now();
    page_.plan_started.store(p.id, std::memory_order_release);
    plan_result r{.epoch = p.epoch, .plan = p.id};
    // Closed first: a sequence may be closed and opened anew in one plan.
    for (const sequence_id id : p.closes) sequences_.erase(id);
    for (const auto& o : p.opens) open(o);
    run_ops(p, r);
    CHECK(begin_ || p.jobs.empty(), "this executor has no tiers below");
    for (const kv_job& job : p.jobs) begin_(job);
    r.rows.resize(p.rows.size());
    for (std::size_t i = 0; i < p.rows.size(); ++i)
        r.rows[i] = {.seq = p.rows[i].seq, .pos = p.rows[i].pos, .n = p.rows[i].n, .status = row_status::void_row};
    if (!p.rows.empty()) run_rows(p, r);
    r.step_us = ns_since(start) / 1000;
    page_.plans_done.fetch_add(1, std::memory_order_acq_rel);
    return r;
}

void plan_runner::open(const sequence_open& o) {
    sequence s;
    s.tokens = unpack_ids(o.tokens);
    s.n_prompt = o.n_prompt;
    s.params = o.params;
    s.sampling = to_sampling(o.params);
    if (o.params.min_tokens > 0) {
        s.sampling_without_end = s.sampling;
        for (const token_id end : o.params.end_tokens)
            s.sampling_without_end.logit_bias.emplace_back(end, -std::numeric_limits<float>::infinity());
    }
    s.tables.resize(backend_.layout().groups.size());
    s.watched = o.watch_text;
    s.mu = o.mu;
    if (s.params.pool != pooling::none) {
        s.pooled.assign(static_cast<std::size_t>(n_embd_), 0.0);
        if (!hidden_) hidden_.reset(new float[static_cast<std::size_t>(max_rows_) * static_cast<std::size_t>(n_embd_)]);
    }
    // An id outside the vocabulary has no embedding: the sequence fails like one whose numbers went wrong.
    s.failed = std::any_of(s.tokens.begin(), s.tokens.end(), [&](token_id t) { return t < 0 || t >= n_vocab_; });
    if (s.failed) log::error("sequence_refused seq={} reason=token_out_of_range", o.id);
    if (!s.params.grammar.empty() && !s.failed) {
        const auto opened = open_grammar(s);
        if (!opened) log::error("grammar_refused seq={} reason=\"{}\"", o.id, opened.error().message);
        s.stuck = !opened.ok();
    }
    s.tokens.reserve(
        s.tokens.size() + static_cast<std::size_t>(std::clamp<std::int64_t>(o.params.max_tokens, 0, 4096)));
    sequences_.insert_or_assign(o.id, std::move(s));
}

/// The vocabulary's tree and the grammar are made beside the worker, whose counter goes on moving: a step that takes
/// long here is not stuck.
result<void> plan_runner::open_grammar(sequence& s) {
    auto job = std::async(std::launch::async, [&]() -> result<std::shared_ptr<model::constraint>> {
        const auto vocabulary = backend_.vocabulary();
        if (!vocabulary) return fail(errc::constraint_failed, "this executor has no vocabulary");
        return grammars_.get(s.params.grammar, vocabulary);
    });
    while (job.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready)
        page_.progress.fetch_add(1, std::memory_order_relaxed);
    TROUPE_TRY(auto grammar, job.get());
    s.grammar.emplace(std::move(grammar));
    for (auto i = static_cast<std::size_t>(s.n_prompt); i < s.tokens.size(); ++i) {
        TROUPE_TRYV(s.grammar->accept(s.tokens[i]));
    }
    return {};
}

void plan_runner::run_ops(const plan& p, plan_result& r) {
    r.ops_ok.reserve(p.ops.size());
    for (const kv_op& op : p.ops) r.ops_ok.push_back(run_op(op) ? 1 : 0);
}

bool plan_runner::run_op(const kv_op& op) {
    switch (op.kind) {
    case kv_op_kind::commit_segment: {
        if (faults_.fail_commit()) return false;
        const auto done = backend_.commit(static_cast<std::uint32_t>(op.to));
        if (done)
            page_.kv_bytes.fetch_add(backend_.layout().segment_bytes, std::memory_order_relaxed);
        else
            log::warn("kv_commit_failed segment={} reason=\"{}\"", op.to, done.error().message);
        return done.ok();
    }
    case kv_op_kind::release_segment:
        backend_.release(static_cast<std::uint32_t>(op.to));
        page_.kv_bytes.fetch_sub(backend_.layout().segment_bytes, std::memory_order_relaxed);
        return true;
    case kv_op_kind::copy_block:
        backend_.copy_block(op.group, static_cast<model::block_id>(op.from), static_cast<model::block_id>(op.to));
        return true;
    }
    CHECK(false, "unknown KV operation");
    return false;
}

bool plan_runner::watched(const plan& p) const {
    return std::any_of(p.rows.begin(), p.rows.end(), [&](const plan_row& row) {
        const auto it = sequences_.find(row.seq);
        return it != sequences_.end() && it->second.watched;
    });
}

void plan_runner::run_rows(const plan& p, plan_result& r) {
    std::int64_t rows = 0;
    for (const plan_row& row : p.rows) rows += row.n;
    const double expected = row_tick_ns_ * static_cast<double>(std::min<std::int64_t>(rows, max_rows_));
    page_.tick_ns.store(static_cast<std::uint64_t>(expected), std::memory_order_release);

    const auto faults = faults_.begin_step(watched(p));
    backend_.begin_step();
    next_row_ = 0;
    done_of_row_ = 0;
    nan_due_ = nan_due_ || faults.nan;
    nan_watched_only_ = faults.nan ? faults.nan_watched_only : nan_watched_only_;
    sleep_moving(faults.slow_ms);
    while (next_row_ < p.rows.size()) {
        build_pass(p, r);
        if (pieces_.empty()) continue;
        forward_pass();
        backend_.parallel(static_cast<std::int64_t>(pieces_.size()), [&](std::int64_t i, int thread) {
            const piece& part = pieces_[static_cast<std::size_t>(i)];
            finish_piece(p.rows[part.row], part, r.rows[part.row], thread);
        });
    }
    backend_.end_step();
    page_.steps_done.fetch_add(1, std::memory_order_acq_rel);
}

bool plan_runner::computable(const plan_row& row, const sequence& s) const {
    CHECK(row.pos >= 0 && row.n >= 1);
    return !s.ended && !s.failed &&
           static_cast<std::size_t>(row.pos) + static_cast<std::size_t>(row.n) <= s.tokens.size();
}

/// Takes rows from next_row_ on until a pass is full.
void plan_runner::build_pass(const plan& p, plan_result& r) {
    pieces_.clear();
    batch_.logit_rows.clear();
    batch_.hidden_rows.clear();
    batch_.hidden = hidden_.get();
    n_batch_seqs_ = 0;
    n_rows_ = 0;
    for (; next_row_ < p.rows.size(); ++next_row_, done_of_row_ = 0) {
        const plan_row& row = p.rows[next_row_];
        const auto it = sequences_.find(row.seq);
        if (it == sequences_.end()) continue;
        sequence& s = it->second;
        if (done_of_row_ == 0) {
            for (const table_delta& d : row.tables) {
                CHECK(d.group < s.tables.size() && d.first <= s.tables[d.group].size(), "a block table has no holes");
                auto& table = s.tables[d.group];
                table.resize(std::max(table.size(), d.first + d.blocks.size()), model::no_block);
                std::copy(d.blocks.begin(), d.blocks.end(), table.begin() + d.first);
            }
        }
        if (s.failed) r.rows[next_row_].status = row_status::not_finite;
        if (!computable(row, s) || cancelled_(row.seq)) continue;
        if (!add_piece(row, s)) break;
    }
    batch_.seqs.resize(n_batch_seqs_);
}

/// False if the pass is full before the row is through.
bool plan_runner::add_piece(const plan_row& row, sequence& s) {
    const std::int32_t pos = row.pos + done_of_row_;
    std::int32_t n = std::min(row.n - done_of_row_, max_rows_ - n_rows_);
    const auto free_logits = max_logits_ - static_cast<std::int32_t>(batch_.logit_rows.size());
    while (n > 0 && wanted_logits(row, s, pos, n, done_of_row_ + n == row.n) > free_logits) --n;
    if (n == 0) return false;
    const bool last = done_of_row_ + n == row.n;
    piece part{.row = next_row_,
        .seq = &s,
        .pos = pos,
        .n = n,
        .last = last,
        .first_logits = static_cast<std::int32_t>(batch_.logit_rows.size()),
        .n_logits = wanted_logits(row, s, pos, n, last),
        .first_hidden = static_cast<std::int32_t>(batch_.hidden_rows.size()),
        .n_hidden = wanted_hidden(row, s, n, last)};
    for (std::int32_t i = n - part.n_logits; i < n; ++i) batch_.logit_rows.push_back(n_rows_ + i);
    for (std::int32_t i = n - part.n_hidden; i < n; ++i) batch_.hidden_rows.push_back(n_rows_ + i);

    if (batch_.seqs.size() <= n_batch_seqs_) batch_.seqs.emplace_back();
    model::batch_seq& b = batch_.seqs[n_batch_seqs_++];
    b.tokens = std::span(s.tokens).subspan(static_cast<std::size_t>(pos), static_cast<std::size_t>(n));
    b.pos = pos;
    b.tables.clear();
    const auto n_blocks = static_cast<std::size_t>((pos + n + model::block_tokens - 1) / model::block_tokens);
    for (std::size_t g = 0; g < s.tables.size(); ++g) {
        CHECK(s.tables[g].size() >= n_blocks, "a row needs blocks for all its positions");
        b.tables.emplace_back(std::span(s.tables[g]).first(n_blocks));
        // A block is zeroed when its first position is written: what it held before could be NaN, and 0 x NaN is NaN.
        for (auto i = static_cast<std::size_t>((pos + model::block_tokens - 1) / model::block_tokens); i < n_blocks;
             ++i) {
            CHECK(s.tables[g][i] != model::no_block, "positions that are written need a block");
            backend_.zero_block(g, s.tables[g][i]);
        }
    }
    pieces_.push_back(part);
    n_rows_ += n;
    done_of_row_ += n;
    return last;
}

bool plan_runner::samples(const plan_row& row, const sequence& s) const {
    return row.sample && s.params.pool == pooling::none && s.n_generated() < s.params.max_tokens;
}

/// Logits are wanted of the last so many rows of [pos, pos + n): all, if some predict prompt tokens, or just the
/// sampled one.
std::int32_t plan_runner::wanted_logits(
    const plan_row& row, const sequence& s, std::int32_t pos, std::int32_t n, bool last) const {
    if (s.params.prompt_logprobs && pos + 1 < s.n_prompt) return n;
    return last && samples(row, s) ? 1 : 0;
}

/// Hidden states are wanted of the last so many rows of a piece of n.
std::int32_t plan_runner::wanted_hidden(const plan_row& row, const sequence& s, std::int32_t n, bool last) const {
    if (s.params.pool == pooling::mean) return n;
    return s.params.pool == pooling::last && last && row.sample ? 1 : 0;
}

/// Fault kind slow: the step takes longer, and progress keeps moving.
void plan_runner::sleep_moving(std::int64_t ms) {
    constexpr std::int64_t slice = 20;
    for (; ms > 0; ms -= slice) {
        std::this_thread::sleep_for(std::chrono::milliseconds(std::min(slice, ms)));
        page_.progress.fetch_add(1, std::memory_order_relaxed);
    }
}

void plan_runner::forward_pass() {
    const auto start = clock::now();
    const auto before = page_.progress.load(std::memory_order_relaxed);
    backend_.forward(batch_, logits_.get(), &page_.progress);
    measure(n_rows_, page_.progress.load(std::memory_order_relaxed) - before, ns_since(start));
    page_.progress.fetch_add(1, std::memory_order_relaxed);
    if (nan_due_) poison();
}

void plan_runner::measure(std::int64_t rows, std::uint64_t ticks, std::uint64_t ns) {
    if (ticks == 0) return;
    constexpr double keep = 0.98;
    const double row_tick = static_cast<double>(ns) / static_cast<double>(ticks) / static_cast<double>(rows);
    row_tick_ns_ = std::max(row_tick, row_tick_ns_ * keep);
}

/// Fault kind nan: the logits of one sequence, in the first pass from now on that computes any.
void plan_runner::poison() {
    for (const piece& part : pieces_) {
        if (part.n_logits == 0 || (nan_watched_only_ && !part.seq->watched)) continue;
        float* row = logits_.get() + static_cast<std::size_t>(part.first_logits) * static_cast<std::size_t>(n_vocab_);
        std::fill_n(row, static_cast<std::size_t>(part.n_logits) * static_cast<std::size_t>(n_vocab_),
            std::numeric_limits<float>::quiet_NaN());
        nan_due_ = false;
        return;
    }
}

bool plan_runner::finite(const piece& part) const {
    for (std::int32_t i = 0; i < part.n_logits; ++i)
        if (!backend_.all_finite(logits_at(part.first_logits + i), n_vocab_)) return false;
    for (std::int32_t i = 0; i < part.n_hidden; ++i)
        if (!backend_.all_finite(hidden_at(part.first_hidden + i), n_embd_)) return false;
    return true;
}

void plan_runner::finish_piece(const plan_row& row, const piece& part, row_result& r, int thread) {
    sequence& s = *part.seq;
    if (!finite(part)) {
        s.failed = true;
        r.status = row_status::not_finite;
        r.prompt_scores.clear();
        return;
    }
    if (s.params.prompt_logprobs) score_prompt(part, r, thread);
    if (part.n_hidden > 0) pool(row, part, r);
    if (!part.last) return;
    r.status = row_status::ok;
    if (!row.sample) return;
    CHECK(static_cast<std::size_t>(row.pos + row.n) == s.tokens.size(), "only the newest position is sampled");
    if (samples(row, s)) return sample(s, logits_at(part.first_logits + part.n_logits - 1), r, thread);
    r.ended = s.ended = true;
}

void plan_runner::score_prompt(const piece& part, row_result& r, int thread) {
    const sequence& s = *part.seq;
    const std::int32_t first = part.pos + part.n - part.n_logits;
    for (std::int32_t i = 0; i < part.n_logits && first + i + 1 < s.n_prompt; ++i) {
        const auto scored = samplers_[static_cast<std::size_t>(thread)].score(
            {logits_at(part.first_logits + i), static_cast<std::size_t>(n_vocab_)},
            s.tokens[static_cast<std::size_t>(first + i + 1)], s.params.n_logprobs);
        append_score(r.prompt_scores, {scored.logprob, entries_of(scored.top)});
    }
}

/// Positions are summed in ascending order, in double: the same bits however the prompt was cut.
void plan_runner::pool(const plan_row& row, const piece& part, row_result& r) const {
    sequence& s = *part.seq;
    for (std::int32_t i = 0; i < part.n_hidden; ++i) {
        const float* hidden = hidden_at(part.first_hidden + i);
        for (std::size_t d = 0; d < s.pooled.size(); ++d) s.pooled[d] += hidden[d];
    }
    if (!part.last || !row.sample) return;
    double square = 0;
    for (const double x : s.pooled) square += x * x;
    const double scale = square > 0 ? 1 / std::sqrt(square) : 0;  // the mean's divisor cancels out
    std::vector<float> unit(s.pooled.size());
    for (std::size_t d = 0; d < unit.size(); ++d) unit[d] = static_cast<float>(s.pooled[d] * scale);
    r.embedding = pack_floats(unit);
}

/// Fills s.allowed; where only an end token is, min_tokens does not ban it. False: nothing is allowed.
bool plan_runner::constrain(sequence& s, const model::sampling_params*& sampling) {
    if (s.stuck || !s.grammar->mask(s.allowed)) return false;
    const auto may_end = s.grammar->accepting();
    if (!may_end) return false;
    if (!s.allowed.any()) sampling = &s.sampling;
    for (const token_id end : s.params.end_tokens) s.allowed.assign(static_cast<std::size_t>(end), *may_end);
    return s.allowed.any();
}

/// After a token that is text.
void plan_runner::follow(sequence& s, token_id chosen, row_result& r) {
    s.stuck = !s.grammar->accept(chosen).ok();
    const auto done = s.grammar->accepting();
    if (s.stuck || !done || !*done) return;
    r.complete = s.grammar->mask(s.allowed).ok() && !s.allowed.any();
    r.ended = s.ended = s.ended || r.complete;
}

void plan_runner::sample(sequence& s, const float* logits, row_result& r, int thread) {
    const bool constrained = !s.params.grammar.empty();
    const auto* sampling = s.n_generated() < s.params.min_tokens ? &s.sampling_without_end : &s.sampling;
    if (constrained && !constrain(s, sampling)) {
        // A text that was complete when it was resumed, and that no end token may end, ends here.
        const auto over = s.stuck ? result<bool>(false) : s.grammar->accepting();
        r.complete = r.ended = s.ended = over && *over;
        s.failed = !s.ended;
        if (s.failed) r.status = row_status::constraint_failed;
        return;
    }
    auto chosen = samplers_[static_cast<std::size_t>(thread)].sample({logits, static_cast<std::size_t>(n_vocab_)},
        *sampling, s.tokens, static_cast<std::int64_t>(s.tokens.size()), s.mu, constrained ? &s.allowed : nullptr);
    s.tokens.push_back(chosen.id);
    s.mu = chosen.mu;
    r.sampled = true;
    r.token = chosen.id;
    r.logprob = chosen.logprob;
    r.top = entries_of(chosen.top);
    r.mu = chosen.mu;
    const auto& ends = s.params.end_tokens;
    const bool full = static_cast<std::int64_t>(s.tokens.size()) >= backend_.info().n_ctx;
    const bool end = std::find(ends.begin(), ends.end(), chosen.id) != ends.end();
    r.ended = s.ended = end || s.n_generated() >= s.params.max_tokens || full;
    if (constrained && !end) follow(s, chosen.id, r);
}

}  // namespace troupe::actors
