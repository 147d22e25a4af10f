// Faults armed by an operator and how often each may still fire, counted over all executor incarnations.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "actors/messages.hpp"

namespace troupe::actors {

class fault_book {
 public:
    void add(executor_fault f) { armed_.push_back(std::move(f)); }
    /// The executor says that one of this kind fires now.
    void fired(std::string_view kind) {
        const auto it =
            std::find_if(armed_.begin(), armed_.end(), [&](const executor_fault& f) { return f.kind == kind; });
        if (it != armed_.end() && --it->times <= 0) armed_.erase(it);
    }
    /// What the next incarnation must be told. Its after_steps count from there.
    const std::vector<executor_fault>& armed() const { return armed_; }

 private:
    std::vector<executor_fault> armed_;
};

}  // namespace troupe::actors
