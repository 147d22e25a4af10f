// The degradation ladder: how much the engine asks of its executor after what kinds of death, and when it asks for more
// again. Plain code; the time is passed in.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "actors/step_bounds.hpp"
#include "actors/supervisor/policy.hpp"
#include "core/clock.hpp"

namespace troupe::actors {

/// Without a death until the engine goes a rung up; it doubles with every relapse.
inline constexpr std::chrono::seconds quiet_period{60}, longest_quiet_period{16 * 60};

/// `down` is no rung of it: that is the open circuit of restart_policy. There is no other device to go to yet.
enum class rung : std::uint8_t { full, no_run_ahead, small_batch };
std::string_view name(rung r);
step_bounds bounds_of(rung r);

/// What a death says about how much is asked of the executor. Crashes say nothing: those have a culprit to be found.
enum class strain : std::uint8_t { none, device, memory, progress };
/// `load_out_of_memory`: it could not be loaded again for that reason.
strain strain_of(death_cause cause, bool load_out_of_memory);

/// Two deaths of one strain within the quiet period lead a rung down (those for want of memory at once to the rung that
/// needs less of it); a quiet period without any leads a rung up. One that has to go down soon after it went up waits
/// twice as long the next time.
class degradation_ladder {
 public:
    /// True: the level fell.
    bool on_death(strain s, steady_time now);
    /// True: something got better (the level rose, or a lost device counts as recovered).
    bool on_time(steady_time now);

    rung level() const { return level_; }
    /// Why the engine is not at its best; empty: it is.
    std::string reason() const;

 private:
    struct count {
        int deaths = 0;
        steady_time last{};
    };
    void relapse(steady_time now);

    rung level_ = rung::full;
    strain cause_ = strain::none;  ///< of the latest fall
    bool device_lost_ = false;     ///< within the quiet period
    std::array<count, 4> counts_{};
    std::chrono::seconds quiet_ = quiet_period;
    steady_time quiet_since_{};
    std::optional<steady_time> climbed_;
};

}  // namespace troupe::actors
