// Faults armed by an operator and how often each may still fire, counted over all executor incarnations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "actors/executor/faults.hpp"
#include "actors/messages.hpp"

namespace troupe::actors {

class fault_book {
 public:
    /// `steps_done`: of the incarnation that runs; 0 if there is none.
    void add(executor_fault f, std::uint64_t steps_done) { armed_.push_back({std::move(f), steps_done}); }
    /// The executor says that one of this kind fires now.
    void fired(std::string_view kind) {
        const bool watched = kind.ends_with(watched_suffix);
        if (watched) kind.remove_suffix(watched_suffix.size());
        const auto it = std::find_if(armed_.begin(), armed_.end(),
            [&](const entry& e) { return e.fault.kind == kind && e.fault.only_watched == watched; });
        if (it == armed_.end()) return;
        it->fired = true;
        if (--it->fault.times <= 0) armed_.erase(it);
    }
    /// An incarnation is gone after so many steps: a fault that has not fired yet goes on counting where it was; one
    /// that has, and may fire again, counts anew.
    void executor_gone(std::uint64_t steps_done) {
        for (entry& e : armed_) {
            if (!e.fired) {
                const auto passed = static_cast<std::int64_t>(steps_done - std::min(steps_done, e.armed_at));
                e.fault.after_steps = std::max<std::int64_t>(0, e.fault.after_steps - passed);
            }
            e.fired = false;
            e.armed_at = 0;
        }
    }
    /// What the next incarnation must be told.
    std::vector<executor_fault> armed() const {
        std::vector<executor_fault> faults;
        for (const entry& e : armed_) faults.push_back(e.fault);
        return faults;
    }

 private:
    struct entry {
        executor_fault fault;
        std::uint64_t armed_at = 0;  ///< steps the incarnation had done
        bool fired = false;          ///< in the incarnation that runs
    };
    std::vector<entry> armed_;
};

}  // namespace troupe::actors
