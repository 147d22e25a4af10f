// Settings under which no sampler changes anything, to switch on the one under test.
#pragma once

#include <limits>

#include "model/sampling/sampler.hpp"

namespace troupe::model {

inline constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

inline sampling_params neutral() {
    sampling_params p;
    p.temperature = 1;
    p.top_k = 0;
    p.top_p = 1;
    p.min_p = 0;
    return p;
}

}  // namespace troupe::model
