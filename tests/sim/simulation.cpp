// The world of one seed and its course.
#include "simulation.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace troupe::actors::sim {
namespace {

using namespace std::chrono_literals;

constexpr int most_happenings = 200'000;

executor_info draw_info(std::mt19937_64& random) {
    const auto pick = [&](int a, int b) { return std::uniform_int_distribution<>(a, b)(random); };
    executor_info info;
    info.numerics_id = "sim";
    info.n_ctx = 400;
    info.n_vocab = vocabulary;
    info.max_rows = pick(0, 3) == 0 ? 24 : 128;
    info.segment_bytes = 4096;
    info.max_segments = static_cast<std::uint64_t>(pick(14, 60));
    const int layout = pick(0, 3);
    if (layout != 3) {  // full attention
        info.group_window.push_back(0);
        info.group_layers.push_back(2);
        info.group_block_bytes.push_back(static_cast<std::uint64_t>(pick(0, 1) ? 512 : 1024));
        info.group_latent.push_back(pick(0, 1) ? 576 : 0);
    }
    if (layout >= 1) {
        info.group_window.push_back(pick(0, 1) ? 32 : pick(5, 70));
        info.group_layers.push_back(4);
        info.group_block_bytes.push_back(static_cast<std::uint64_t>(pick(0, 1) ? 1024 : 2048));
        info.group_latent.push_back(0);
    }
    return info;
}

}  // namespace

world draw_world(std::uint64_t seed) {
    std::mt19937_64 random(seed * 7919 + 1);
    const auto pick = [&](int a, int b) { return std::uniform_int_distribution<>(a, b)(random); };
    const auto sometimes = [&](int one_in, double value) { return pick(1, one_in) == 1 ? value : 0.0; };
    world w;
    w.seed = seed;
    w.info = draw_info(random);
    w.n_requests = pick(5, 40);
    w.n_clients = pick(1, 5);
    w.settings.max_seqs = pick(1, 8);
    w.settings.run_ahead = pick(1, 4);
    w.settings.queue_limit = pick(3, 64);
    w.settings.queue_timeout_s = pick(0, 4) == 0 ? 5 : 3000;
    w.death = sometimes(2, 0.03);
    w.commit_failure = sometimes(4, 0.3);
    w.cancel = sometimes(2, 0.2);
    w.stop = sometimes(2, 0.2);
    w.killers = pick(0, 3) == 0 ? pick(1, 2) : 0;
    w.not_finite = w.info.group_window[0] == 0 && pick(0, 3) == 0 ? 2 : 0;
    w.shrink = sometimes(3, 0.01);
    w.stale = 0.5;
    if (w.shrink > 0) w.disk = static_cast<std::uint64_t>(pick(1, 40)) * w.info.segment_bytes;
    w.damage = w.disk > 0 && pick(0, 1) == 0 ? 0.3 : 0;
    w.deaths_look_like_crashes = pick(0, 3) == 0;
    return w;
}

simulation::simulation(world w) : world_(std::move(w)), random_(world_.seed), policy_(world_.settings) { now_ += 1h; }

void simulation::after(double ms, std::function<void()> f) {
    future_.push({now_ + std::chrono::nanoseconds(static_cast<std::int64_t>(ms * 1e6)), order_++, std::move(f)});
}

void simulation::wrong(const std::string& what) {
    if (wrong_.size() < 10) wrong_.push_back(what);
}

std::vector<token_id> simulation::draw_prompt() {
    std::vector<token_id> prompt =
        preambles_[static_cast<std::size_t>(pick(0, static_cast<int>(preambles_.size()) - 1))];
    if (chance(0.3)) prompt.resize(static_cast<std::size_t>(pick(1, static_cast<int>(prompt.size()))));
    for (int i = pick(0, chance(0.2) ? 120 : 30); i > 0; --i)
        prompt.push_back(static_cast<token_id>(10 + pick(0, 800)));
    return prompt;
}

void simulation::add_request(std::vector<token_id> prompt, std::string client, double in_ms) {
    request r;
    r.id = next_id_++;
    r.client = std::move(client);
    r.prompt = std::move(prompt);
    r.max_tokens = pick(1, chance(0.2) ? 150 : 40);
    const generation_id id = r.id;
    requests_.emplace(id, std::move(r));
    after(in_ms, [this, id] { arrive(id); });
}

void simulation::arrive(generation_id id) {
    request& r = requests_.at(id);
    generation_request g;
    g.id = id;
    g.client_key = r.client;
    g.prompt = std::make_shared<const std::vector<token_id>>(r.prompt);
    g.params.max_tokens = r.max_tokens;
    g.params.end_tokens = {end_token};
    g.batch_priority = chance(0.1);
    g.keep = world_.disk > 0 && chance(0.7);
    r.submitted_at = now_;
    const auto taken = policy_.submit(std::move(g), now_);
    if (!taken) {
        const errc code = taken.error().code;
        if (code != errc::queue_full && code != errc::out_of_memory && code != errc::context_length_exceeded)
            wrong("refused: " + taken.error().message);
        if (code == errc::queue_full && taken.error().retry_after_ms <= 0) wrong("queue_full says no time");
        return;
    }
    r.submitted = true;
    if (chance(world_.cancel))
        after(uniform(0, 2000), [this, id] {
            request& gone = requests_.at(id);
            if (gone.finished == 0) gone.cancelled = true;
            policy_.cancel(id, now_);
        });
    if (chance(world_.stop))
        after(uniform(0, 2000), [this, id] {
            request& text = requests_.at(id);
            if (text.finished > 0 || text.got.empty()) return;
            text.stop_at = pick(0, static_cast<int>(text.got.size()));
            policy_.stop_at(id, *text.stop_at, now_);
        });
}

// ---- the executor

void simulation::come_up() {
    world_.info.epoch = ++epoch_;
    world_.info.kv_disk = disk_.room = world_.disk;
    world_.info.images = disk_.list();
    jobs_awaited_ = 0;
    executor_ = std::make_unique<fake_executor>(world_.info, random_, world_.commit_failure, &disk_);
    busy_ = false;
    ++life_;
    policy_.executor_up(world_.info, now_);
}

void simulation::die(const std::string& reason) {
    for (const auto& f : executor_->faults) wrong(f);
    const auto started = executor_->plan_started();
    executor_.reset();
    busy_ = false;
    ++life_;
    ++deaths_;
    policy_.executor_down(epoch_, reason, started, now_);
    after(uniform(1, 800), [this] { come_up(); });
}

void simulation::start_step() {
    if (!executor_ || busy_ || !executor_->has_work()) return;
    busy_ = true;
    std::int64_t rows = 0;
    for (const plan_row& r : executor_->next().rows) rows += r.n;
    const double ms = uniform(0.5, 1.5) * (2 + 0.3 * static_cast<double>(rows)) * (chance(0.02) ? 20 : 1);
    auto result = executor_->step();
    const std::uint64_t life = life_;
    const bool dies = !result || (deaths_ < 40 && chance(world_.death));
    if (dies) {
        const bool late = result && chance(world_.stale);
        const std::string reason = !result || world_.deaths_look_like_crashes ? "crash: signal 11" : "killed";
        after(uniform(0, ms), [this, life, late, result, reason] {
            if (life != life_) return;
            die(reason);
            if (late) after(uniform(0, 1000), [this, r = *result] { policy_.done(r, now_); });
        });
        return;
    }
    result->step_us = static_cast<std::uint64_t>(ms * 1000);
    after(ms, [this, life, r = std::move(*result)] { finish_step(life, r); });
}

/// Jobs begun by plans are finished some time later, beside the steps.
void simulation::finish_jobs() {
    for (; executor_ && jobs_awaited_ < executor_->n_jobs(); ++jobs_awaited_)
        after(uniform(0.1, chance(0.1) ? 8000 : 200), [this, life = life_] {
            if (life != life_) return;
            --jobs_awaited_;
            for (auto& [file, image] : disk_.images) image.damaged = image.damaged || chance(world_.damage);
            policy_.job_done(executor_->finish_job(), now_);
        });
}

void simulation::finish_step(std::uint64_t life, plan_result r) {
    if (life != life_) return;
    busy_ = false;
    start_step();  // the next plan runs while this result travels
    after(uniform(0.05, 0.5), [this, life, r = std::move(r)] {
        if (life == life_ || chance(world_.stale)) policy_.done(r, now_);
    });
}

// ---- the owners

void simulation::take(const notice& n) {
    request& r = requests_.at(about(n));
    if (r.finished > 0) return wrong("a notice after the end of " + std::to_string(r.id));
    if (const auto* t = std::get_if<generation_tokens>(&n)) {
        if (t->n_before != static_cast<std::int64_t>(r.got.size())) wrong("tokens doubled or lost");
        if (r.stalled) wrong("tokens while stalled");
        if (r.got.empty()) r.first_at = now_;
        for (const accepted_token& a : t->tokens) r.got.push_back(a.id);
    } else if (std::get_if<generation_stalled>(&n)) {
        if (std::exchange(r.stalled, true)) wrong("stalled twice");
    } else if (std::get_if<generation_moving>(&n)) {
        if (!std::exchange(r.stalled, false)) wrong("moving, but was not stalled");
    } else if (const auto* f = std::get_if<generation_finished>(&n)) {
        take_end(r, *f);
    }
}

void simulation::take_end(request& r, const generation_finished& f) {
    ++r.finished;
    r.end = f;
    r.end_at = now_;
    const auto whole = answer_of(
        r.prompt, std::min<std::int64_t>(r.max_tokens, world_.info.n_ctx - static_cast<std::int64_t>(r.prompt.size())));
    if (r.stop_at) r.got.resize(static_cast<std::size_t>(*r.stop_at));
    const std::string who = "request " + std::to_string(r.id) + ": ";
    if (f.n_tokens != static_cast<std::int64_t>(r.got.size())) wrong(who + "n_tokens");
    if (r.got.size() > whole.size() || !std::equal(r.got.begin(), r.got.end(), whole.begin()))
        wrong(who + "another text");
    if (f.why == finish::failed) {
        const bool unlucky =
            world_.deaths_look_like_crashes && world_.death > 0;  // thrice in the same stretch by chance
        const bool fine = ((r.killer || unlucky) && f.err.code == errc::executor_poisoned) ||
                          (r.poisoned && f.err.code == errc::non_finite_logits) || f.err.code == errc::queue_timeout ||
                          (f.err.code == errc::out_of_memory && world_.commit_failure > 0);
        if (!fine) wrong(who + "failed: " + std::string(info(f.err.code).name) + " " + f.err.message);
    } else if (f.why == finish::cancelled) {
        if (!r.cancelled) wrong(who + "cancelled by nobody");
    } else {
        if (r.killer || r.poisoned) wrong(who + "should have failed");
        const bool cut = policy_.sequence_limit() < world_.info.n_ctx;
        if (!r.stop_at && r.got.size() != whole.size() && !cut) wrong(who + "text is short");
    }
    if (f.usage.prompt_tokens != static_cast<std::int64_t>(r.prompt.size()) ||
        f.usage.cached_tokens >= f.usage.prompt_tokens)
        wrong(who + "usage");
    if (chance(world_.follow_up) && f.why != finish::failed && next_id_ < 100) {
        auto turn = r.prompt;
        turn.insert(turn.end(), r.got.begin(), r.got.end());
        for (int i = pick(1, 20); i > 0; --i) turn.push_back(static_cast<token_id>(10 + pick(0, 800)));
        add_request(std::move(turn), r.client, uniform(0, 300));
        requests_.at(next_id_ - 1).killer = r.killer;
        requests_.at(next_id_ - 1).poisoned = r.poisoned;
    }
}

// ---- the course

void simulation::pump() {
    while (auto p = policy_.next_plan(now_)) {
        if (!executor_)
            wrong("a plan for nobody");
        else
            executor_->receive(std::move(*p));
    }
    const auto cancels = policy_.take_cancels();
    if (executor_) executor_->cancel(cancels);
    policy_.tick(now_);
    for (const notice& n : policy_.take_notices()) take(n);
    policy_.check();
    start_step();
    finish_jobs();
    const auto alarm = policy_.wakeup(now_);
    if (alarm && (!alarm_ || *alarm < *alarm_ || *alarm_ <= now_)) {
        alarm_ = alarm;
        future_.push({std::max(*alarm, now_ + 1us), order_++, [] {}});
    }
}

std::vector<std::string> simulation::run() {
    for (int i = 0; i < 3; ++i) {
        preambles_.emplace_back();
        for (int n = pick(5, 90); n > 0; --n) preambles_.back().push_back(static_cast<token_id>(10 + pick(0, 800)));
    }
    const double span = chance(0.3) ? 50 : 4000;
    for (int i = 0; i < world_.n_requests; ++i) {
        auto prompt = draw_prompt();
        const bool killer = i < world_.killers, poisoned = !killer && i < world_.killers + world_.not_finite;
        if (killer) prompt[prompt.size() / 2] = killer_token;
        if (poisoned) prompt[prompt.size() / 2] = nan_token;
        add_request(std::move(prompt), "client" + std::to_string(pick(1, world_.n_clients)), uniform(0, span));
        requests_.at(next_id_ - 1).killer = killer;
        requests_.at(next_id_ - 1).poisoned = poisoned;
    }
    if (world_.shrink > 0)
        for (int i = 0; i < 20; ++i)
            after(uniform(0, span), [this] {
                const auto ago = std::chrono::milliseconds(pick(0, 2000));
                policy_.give_back({now_ - ago, pick(0, 3)}, now_);
            });
    after(uniform(0, 100), [this] { come_up(); });
    int happened = 0;
    while (!future_.empty() && wrong_.empty()) {
        const happening h = future_.top();
        future_.pop();
        now_ = std::max(now_, h.at);
        h.what();
        pump();
        if (++happened > most_happenings) wrong("it never ends");
    }
    if (wrong_.empty()) check_end();
    return wrong_;
}

void simulation::check_end() {
    for (const auto& [id, r] : requests_)
        if (r.submitted && r.finished != 1)
            wrong("request " + std::to_string(id) + " ended " + std::to_string(r.finished) + " times");
    if (!policy_.idle()) return wrong("not idle at the end");
    if (!executor_) return wrong("the executor should be up");
    for (const auto& f : executor_->faults) wrong(f);
    for (std::size_t g = 0; g < policy_.kv()->pool().n_groups(); ++g)
        if (policy_.kv()->pool().counts(g).owned != 0) wrong("blocks leak");
    policy_.give_back({steady_time::max(), 0}, now_);
    pump();
    while (!future_.empty()) {
        now_ = std::max(now_, future_.top().at);
        const auto what = future_.top().what;
        future_.pop();
        what();
        pump();
    }
    if (!executor_) return;  // it died once more
    if (policy_.kv()->pool().committed_segments() != 0 || policy_.kv()->cache().n_nodes() != 0)
        wrong("memory stays when idle");
    if (executor_->committed_segments() != 0) wrong("the executor holds segments");
    if (executor_->open_sequences() != 0) wrong("sequences stay open");
    if (policy_.wakeup(now_)) wrong("a timer though idle");
}

}  // namespace troupe::actors::sim
