#include "simulation.hpp"

namespace troupe::actors::sim {
namespace {

constexpr std::uint64_t most_steps_to_end = 300'000;

void add(scheduler_counters& sum, const scheduler_counters& c) {
    sum.submitted += c.submitted;
    sum.preemptions += c.preemptions;
    sum.resumed += c.resumed;
    sum.poisoned += c.poisoned;
    sum.non_finite += c.non_finite;
    sum.results_dropped += c.results_dropped;
    sum.tokens_wasted += c.tokens_wasted;
    sum.cache_hit_tokens += c.cache_hit_tokens;
    sum.commits_failed += c.commits_failed;
    sum.segments_released += c.segments_released;
    sum.blocks_moved += c.blocks_moved;
    sum.images_saved += c.images_saved;
    sum.images_loaded += c.images_loaded;
    sum.images_refused += c.images_refused;
    sum.images_dropped += c.images_dropped;
    sum.prefill_shared += c.prefill_shared;
    sum.cancelled += c.cancelled;
    sum.stopped += c.stopped;
    sum.refused += c.refused;
    sum.executor_deaths += c.executor_deaths;
    sum.rows_void += c.rows_void;
}

}  // namespace

void tally::add(const tally& t) {
    sim::add(scheduler, t.scheduler);
    steps += t.steps;
    finished += t.finished;
    failed += t.failed;
    lost += t.lost;
    snapshots += t.snapshots;
    front_kills += t.front_kills;
    session_crashes += t.session_crashes;
    store_crashes += t.store_crashes;
    disk_failures += t.disk_failures;
    hangs += t.hangs;
    circuits += t.circuits;
}

simulation::simulation(world w) : c_(std::move(w)), people_(c_, *this) {}

std::vector<std::string> simulation::run() {
    front_ = std::make_unique<front>(c_, disk_);
    front_->serve(people_);
    people_.start();
    while (!c_.time.empty() && c_.wrongs.empty()) {
        if (tally_.steps == static_cast<std::uint64_t>(c_.w.steps)) calm_down();
        if (tally_.steps > static_cast<std::uint64_t>(c_.w.steps) + most_steps_to_end) c_.wrong("it never ends");
        step();
        trouble();
    }
    if (c_.wrongs.empty()) check_end();
    count_front();
    tally_.finished = people_.finished();
    tally_.failed = people_.failed();
    tally_.lost = people_.lost();
    tally_.snapshots = people_.snapshots();
    return c_.wrongs;
}

void simulation::step() {
    ++tally_.steps;
    c_.time.step();
    if (front_) front_->go_on();
}

void simulation::trouble() {
    const world& w = c_.w;
    if (!front_) return;
    if (c_.fault(w.front_kill)) return kill_front();
    if (c_.fault(w.session_crash)) {
        ++tally_.session_crashes;
        front_->crash_session(c_.pick(0, 3));
    }
    if (c_.fault(w.store_crash)) {
        ++tally_.store_crashes;
        front_->crash_store();
    }
    if (c_.fault(w.disk_fails) && !disk_.failing) {
        ++tally_.disk_failures;
        disk_.failing = true;
        c_.time.after(c_.uniform(10, 4000), [this] { disk_.failing = false; });
    }
    if (c_.fault(w.memory_short)) {
        front_->host().memory_is_short(true);
        c_.time.after(c_.uniform(10, 2000), [this] {
            if (front_) front_->host().memory_is_short(false);
        });
    }
    if (c_.fault(w.shrink))
        front_->give_back({c_.now() - std::chrono::milliseconds(c_.pick(0, 2000)), c_.pick(0, 3), c_.chance(0.3)});
}

void simulation::kill_front() {
    ++tally_.front_kills;
    const bool may_forget = front_->could_forget();
    count_front();
    front_.reset();
    people_.front_died(may_forget);
    c_.time.after(c_.uniform(50, 500), [this] {
        front_ = std::make_unique<front>(c_, disk_);
        front_->serve(people_);
        people_.front_is_back();
    });
}

void simulation::count_front() {
    if (!front_) return;
    sim::add(tally_.scheduler, front_->policy().counters());
    tally_.hangs += front_->host().hangs();
    tally_.circuits += front_->host().circuits();
}

void simulation::calm_down() {
    c_.lively = false;
    c_.w.commit_failure = 0;
}

void simulation::check_end() {
    if (!front_) return c_.wrong("the front should be up");
    people_.check_end();
    front_->check_idle();
    if (front_->writer().degraded()) c_.wrong("the disk is well, but persistence is degraded");
    if (!front_->host().well()) return c_.wrong("the executor should be up");
    front_->give_back({steady_time::max(), 0, false});
    do {
        front_->go_on();
        if (!c_.time.empty()) step();
    } while (!c_.time.empty() && c_.wrongs.empty());
    const auto* executor = front_->host().executor();
    if (!executor) return;
    if (front_->policy().kv()->pool().committed_segments() != 0 || front_->policy().kv()->cache().n_nodes() != 0)
        c_.wrong("memory stays when idle");
    if (executor->committed_segments() != 0) c_.wrong("the executor holds segments");
    if (executor->open_sequences() != 0) c_.wrong("sequences stay open");
}

}  // namespace troupe::actors::sim
