// Least squares over two unknowns with a decaying memory, so that the fit follows the machine's load.
#include "actors/scheduler/cost_model.hpp"

#include <algorithm>

namespace troupe::actors {
namespace {

constexpr double decay = 0.95, moving = 0.2, depth_unit = 1024;

}  // namespace

void cost_model::observe(std::int64_t decode_rows, std::int64_t prompt_tokens, double depth_sum, double ms) {
    if (ms <= 0) return;
    if (prompt_tokens == 0) {
        if (decode_rows > 0) decode_ms_ = decode_ms_ == 0 ? ms : decode_ms_ + moving * (ms - decode_ms_);
        return;
    }
    const double n = static_cast<double>(prompt_tokens), d = depth_sum / depth_unit;
    const double y = std::max(ms - (decode_rows > 0 ? decode_ms_ : 0), 0.01 * ms);
    nn_ = decay * nn_ + n * n;
    nd_ = decay * nd_ + n * d;
    dd_ = decay * dd_ + d * d;
    ny_ = decay * ny_ + n * y;
    dy_ = decay * dy_ + d * y;
    const double determinant = nn_ * dd_ - nd_ * nd_;
    a_ = ny_ / nn_;
    b_ = 0;
    // Steps of one depth say nothing about the slope.
    if (determinant < 1e-3 * nn_ * dd_ || determinant <= 0) return;
    const double slope = (nn_ * dy_ - nd_ * ny_) / determinant, base = (dd_ * ny_ - nd_ * dy_) / determinant;
    if (slope <= 0 || base <= 0) return;
    a_ = base;
    b_ = slope;
}

double cost_model::prompt_ms(std::int64_t n, std::int64_t start) const {
    const double tokens = static_cast<double>(n);
    return a_ * tokens + b_ * tokens * (static_cast<double>(start) + tokens / 2) / depth_unit;
}

double cost_model::depth_ms() const { return b_ / depth_unit; }

std::int64_t cost_model::chunk(double budget_ms, std::int64_t start, std::int64_t least, std::int64_t most) const {
    least = std::min(least, most);
    if (!knows_prompt()) return least;
    std::int64_t low = least, high = most;
    while (low < high) {
        const std::int64_t mid = (low + high + 1) / 2;
        if (prompt_ms(mid, start) <= budget_ms)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

}  // namespace troupe::actors
