// When each stage of the newest restarts came: what chaos runs measure, and where a slow recovery can be read from.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include <boost/json/array.hpp>

#include "actors/executor/progress_page.hpp"
#include "core/clock.hpp"

namespace troupe::actors {

/// Moments in nanoseconds of the steady clock, which parent and child share; 0: has not come.
struct recovery {
    std::uint64_t epoch = 0;     ///< of the successor
    std::string reason;          ///< of the first death, if several came before a successor was ready
    std::int64_t fired = 0;      ///< an injected fault was about to end the executor
    std::int64_t noticed = 0;    ///< the executor is gone, and the supervisor knows
    std::int64_t launched = 0;   ///< of the newest attempt, as the following ones
    std::int64_t loading = 0;    ///< the child's worker begins to load the model
    std::int64_t loaded = 0;     ///< the model can run
    std::int64_t ready = 0;      ///< the front is connected
    std::int64_t first_row = 0;  ///< the first token of all was sampled: what ran has its memory back
};

/// The newest limits::supervisor_events_kept.
class recovery_log {
 public:
    /// The page is that of the executor that is gone; null: there was none.
    void gone(const std::string& reason, steady_time now, const progress_page* page);
    void launched(std::uint64_t epoch, steady_time now);
    void ready(steady_time now, const progress_page* page);
    /// The executor is put to sleep: what its page says from now on is about another one.
    void asleep(const progress_page* page);
    /// Oldest first, moments in microseconds; the page is that of the newest executor.
    boost::json::array json(const progress_page* page) const;

 private:
    std::deque<recovery> log_;
    bool under_way_ = false, settled_ = false;
};

}  // namespace troupe::actors
