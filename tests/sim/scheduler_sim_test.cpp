// Hundreds of seeded worlds: whatever dies, runs short or goes away, every request ends once with the right text, every
// block is accounted for, and nothing leaks. TROUPE_SIM_SEED=n replays one seed, TROUPE_SIM_COUNT=n runs that many.
#include <cstdlib>

#include <gtest/gtest.h>

#include "simulation.hpp"

namespace troupe::actors::sim {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

/// What happened in all runs together.
void add(scheduler_counters& sum, const scheduler_counters& c) {
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
}

scheduler_counters run_seed(std::uint64_t seed) {
    simulation s(draw_world(seed));
    const auto wrong = s.run();
    for (const auto& what : wrong)
        ADD_FAILURE() << "seed " << seed << ": " << what << " (TROUPE_SIM_SEED=" << seed << " replays it)";
    return s.policy().counters();
}

TEST(SchedulerSimulation, EveryRequestEndsOnceWithItsTextAndNothingLeaks) {
    if (const auto seed = from_environment("TROUPE_SIM_SEED", 0)) {
        run_seed(seed);
        return;
    }
    const auto count = from_environment("TROUPE_SIM_COUNT", 400);
    scheduler_counters sum;
    for (std::uint64_t seed = 1; seed <= count && !HasFailure(); ++seed) add(sum, run_seed(seed));
    if (count < 300 || HasFailure()) return;
    // A simulation in which nothing happens would prove nothing.
    EXPECT_GT(sum.preemptions, 100u);
    EXPECT_GT(sum.resumed, 100u);
    EXPECT_GT(sum.poisoned, 10u);
    EXPECT_GT(sum.non_finite, 10u);
    EXPECT_GT(sum.results_dropped, 100u);
    EXPECT_GT(sum.tokens_wasted, 20u);
    EXPECT_GT(sum.cache_hit_tokens, 10'000u);
    EXPECT_GT(sum.commits_failed, 100u);
    EXPECT_GT(sum.segments_released, 100u);
    EXPECT_GT(sum.blocks_moved, 100u);
    EXPECT_GT(sum.images_saved, 100u);
    EXPECT_GT(sum.images_loaded, 20u);
    EXPECT_GT(sum.images_refused, 5u);
    EXPECT_GT(sum.images_dropped, 10u);
    EXPECT_GT(sum.prefill_shared, 10u);
    EXPECT_GT(sum.cancelled, 100u);
    EXPECT_GT(sum.stopped, 100u);
    EXPECT_GT(sum.refused, 10u);
}

}  // namespace
}  // namespace troupe::actors::sim
