// Hundreds of seeded worlds: whatever dies, runs short or goes away, every request ends once with the right text, every
// block is accounted for, and nothing leaks. TROUPE_SIM_SEED=n replays one seed, TROUPE_SIM_COUNT=n runs that many.
#include <cstdlib>
#include <iostream>

#include <gtest/gtest.h>

#include "simulation.hpp"

namespace troupe::actors::sim {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

void run_seed(std::uint64_t seed) {
    simulation s(draw_world(seed));
    const auto wrong = s.run();
    for (const auto& what : wrong) ADD_FAILURE() << "seed " << seed << ": " << what << " (TROUPE_SIM_SEED=" << seed << " replays it)";
}

TEST(SchedulerSimulation, EveryRequestEndsOnceWithItsTextAndNothingLeaks) {
    if (const auto seed = from_environment("TROUPE_SIM_SEED", 0)) return run_seed(seed);
    const auto count = from_environment("TROUPE_SIM_COUNT", 400);
    for (std::uint64_t seed = 1; seed <= count && !HasFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        run_seed(seed);
    }
}

}  // namespace
}  // namespace troupe::actors::sim
