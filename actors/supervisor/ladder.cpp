#include "actors/supervisor/ladder.hpp"

#include <algorithm>

namespace troupe::actors {
namespace {

constexpr int deaths_to_fall = 2;
constexpr int small_seqs = 4, small_rows = 64;

rung below(rung r) { return r == rung::full ? rung::no_run_ahead : rung::small_batch; }
rung above(rung r) { return r == rung::small_batch ? rung::no_run_ahead : rung::full; }

std::string_view words(strain s) {
    constexpr std::array<std::string_view, 4> all{
        "", "the device was lost again", "the executor died for want of memory again", "the executor hung again"};
    return all[static_cast<std::size_t>(s)];
}

}  // namespace

std::string_view name(rung r) {
    constexpr std::array<std::string_view, 3> names{"full", "no_run_ahead", "small_batch"};
    return names[static_cast<std::size_t>(r)];
}

step_bounds bounds_of(rung r) {
    step_bounds b;
    if (r != rung::full) b.run_ahead = 1;
    if (r == rung::small_batch) {
        b.max_seqs = small_seqs;
        b.max_rows = small_rows;
    }
    return b;
}

strain strain_of(death_cause cause, bool load_out_of_memory) {
    switch (cause) {
    case death_cause::device_lost:
        return strain::device;
    case death_cause::oom_killed:
        return strain::memory;
    case death_cause::hang:
        return strain::progress;
    case death_cause::load_failed:
        return load_out_of_memory ? strain::memory : strain::none;
    default:
        return strain::none;
    }
}

bool degradation_ladder::on_death(strain s, steady_time now) {
    if (s == strain::none) return false;
    device_lost_ = device_lost_ || s == strain::device;
    quiet_since_ = now;
    count& c = counts_[static_cast<std::size_t>(s)];
    if (now - c.last > quiet_) c.deaths = 0;
    c.last = now;
    if (++c.deaths < deaths_to_fall || level_ == rung::small_batch) return false;
    c.deaths = 0;
    relapse(now);
    cause_ = s;
    level_ = s == strain::memory ? rung::small_batch : below(level_);
    return true;
}

void degradation_ladder::relapse(steady_time now) {
    if (climbed_ && now - *climbed_ < 2 * quiet_)
        quiet_ = std::min<std::chrono::seconds>(2 * quiet_, longest_quiet_period);
    climbed_.reset();
}

bool degradation_ladder::on_time(steady_time now) {
    if (level_ == rung::full && climbed_ && now - *climbed_ >= 2 * quiet_) {
        quiet_ = quiet_period;  // it has held
        climbed_.reset();
    }
    if ((level_ == rung::full && !device_lost_) || now - quiet_since_ < quiet_) return false;
    device_lost_ = false;
    if (level_ != rung::full) {
        level_ = above(level_);
        climbed_ = now;
    }
    quiet_since_ = now;
    return true;
}

std::string degradation_ladder::reason() const {
    if (level_ != rung::full)
        return std::string(level_ == rung::no_run_ahead ? "steps are not sent ahead" : "steps are kept small") +
               ", because " + std::string(words(cause_));
    return device_lost_ ? "the device was lost and is back" : "";
}

}  // namespace troupe::actors
