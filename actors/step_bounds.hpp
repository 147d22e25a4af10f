// What a step may hold at most, as the supervisor tells the scheduler: a degraded engine asks less of its executor.
#pragma once

#include "core/limits.hpp"

namespace troupe::actors {

/// Beside what the options and the executor allow: the smaller one counts.
struct step_bounds {
    int run_ahead = limits::max_run_ahead;
    int max_seqs = limits::max_step_seqs;
    int max_rows = limits::max_step_rows;
    bool operator==(const step_bounds&) const = default;
};

}  // namespace troupe::actors
