// Seeded worlds: whatever dies, runs short or goes away, every request ends once with the right text, every block is
// accounted for, nothing is told before it is written, and nothing leaks.
//
// As many seeds as fit into a quarter of a minute; or TROUPE_SIM_SEED=n replays one, TROUPE_SIM_COUNT=n runs that many
// from TROUPE_SIM_FIRST on, TROUPE_SIM_STEPS=n makes them longer (scripts/simulate sets these).
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#include <gtest/gtest.h>

#include "simulation.hpp"

namespace troupe::actors::sim {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

char current_seed[64];

/// A CHECK ends the process, and a loop without end has to be ended: the seed must be known all the same.
void tell_seed(int signal) {
    if (write(STDERR_FILENO, current_seed, std::strlen(current_seed)) < 0) _exit(1);
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}

struct run {
    tally happened;
    bool good = true;
};

run run_seed(std::uint64_t seed, int steps) {
    constexpr unsigned longest_s = 60;  // of one seed: milliseconds are normal
    std::snprintf(current_seed, sizeof current_seed, "\nTROUPE_SIM_SEED=%llu\n", static_cast<unsigned long long>(seed));
    alarm(longest_s);
    simulation s(draw_world(seed, steps));
    const auto wrong = s.run();
    alarm(0);
    for (const auto& what : wrong)
        ADD_FAILURE() << "seed " << seed << ": " << what << " (TROUPE_SIM_SEED=" << seed
                      << " TROUPE_SIM_STEPS=" << steps << " replays it)";
    return {s.happened(), wrong.empty()};
}

/// A simulation in which nothing happens would prove nothing. `seeds` of them have seen at least this much.
void check_worth(const tally& t, std::uint64_t seeds) {
    const auto at_least = [&](const char* what, std::uint64_t n, double a_hundred_seeds) {
        EXPECT_GE(static_cast<double>(n), a_hundred_seeds * static_cast<double>(seeds) / 100) << what;
    };
    at_least("answers", t.finished, 1000);
    at_least("preemptions", t.scheduler.preemptions, 20);
    at_least("resumed", t.scheduler.resumed, 20);
    at_least("poisoned", t.scheduler.poisoned, 3);
    at_least("non-finite", t.scheduler.non_finite, 3);
    at_least("results dropped", t.scheduler.results_dropped, 20);
    at_least("tokens wasted", t.scheduler.tokens_wasted, 5);
    at_least("cache hits", static_cast<std::uint64_t>(t.scheduler.cache_hit_tokens), 2000);
    at_least("commits failed", t.scheduler.commits_failed, 20);
    at_least("segments released", t.scheduler.segments_released, 20);
    at_least("blocks moved", t.scheduler.blocks_moved, 50);
    at_least("images saved", t.scheduler.images_saved, 20);
    at_least("images loaded", t.scheduler.images_loaded, 5);
    at_least("images refused", t.scheduler.images_refused, 1);
    at_least("images dropped", t.scheduler.images_dropped, 2);
    at_least("shared prefills", t.scheduler.prefill_shared, 2);
    at_least("cancelled", t.scheduler.cancelled, 20);
    at_least("stopped", t.scheduler.stopped, 20);
    at_least("refused", t.scheduler.refused, 2);
    at_least("void rows", t.scheduler.rows_void, 20);
    at_least("hangs", t.hangs, 5);
    at_least("circuits", t.circuits, 0.3);
    at_least("front kills", t.front_kills, 5);
    at_least("session crashes", t.session_crashes, 5);
    at_least("store crashes", t.store_crashes, 5);
    at_least("disk failures", t.disk_failures, 5);
    at_least("snapshots", t.snapshots, 10);
}

TEST(SchedulerSimulation, EveryRequestEndsOnceWithItsTextAndNothingLeaks) {
    for (const int signal : {SIGABRT, SIGALRM, SIGSEGV}) std::signal(signal, tell_seed);
    const auto steps = static_cast<int>(from_environment("TROUPE_SIM_STEPS", 1000));
    if (const auto seed = from_environment("TROUPE_SIM_SEED", 0)) {
        run_seed(seed, steps);
        return;
    }
    const auto first = from_environment("TROUPE_SIM_FIRST", 1), count = from_environment("TROUPE_SIM_COUNT", 0);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(15);
    tally sum;
    std::uint64_t n = 0;
    bool good = true;
    for (; good && (count > 0 ? n < count : std::chrono::steady_clock::now() < until); ++n) {
        const run r = run_seed(first + n, steps);
        sum.add(r.happened);
        good = r.good;
    }
    std::printf("seeds %llu steps %llu answers %llu deaths %llu front_kills %llu\n", static_cast<unsigned long long>(n),
        static_cast<unsigned long long>(sum.steps), static_cast<unsigned long long>(sum.finished),
        static_cast<unsigned long long>(sum.scheduler.executor_deaths),
        static_cast<unsigned long long>(sum.front_kills));
    if (good && n >= 100 && steps >= 1000) check_worth(sum, n);
}

}  // namespace
}  // namespace troupe::actors::sim
