// Looks over the scheduler's shoulder: what it was told, what it plans, what it says. Finds tokens lost or doubled,
// rows of what has ended, budgets ignored, places lost, standstill and unfairness.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "actors/scheduler/policy.hpp"
#include "context.hpp"
#include "turn.hpp"

namespace troupe::actors::sim {

class policy_watch {
 public:
    explicit policy_watch(context& c) : c_(c) {}

    void submitted(const generation_request& r, const turn& t);
    /// It must be over with the notices that follow.
    void cancelled(generation_id id) { must_end_.insert(id); }
    void said(const notice& n, const scheduler_policy& p);
    void planned(const plan& p, const scheduler_policy& before);
    void plan_done(std::uint64_t plan) { plans_.erase(plan); }
    void executor_died(const std::string& reason, std::uint64_t plan_started);
    /// After every step of the scheduler. executor_well: it is up and works.
    void check(const scheduler_policy& p, bool executor_well);
    /// With nothing left to do.
    void check_end();

 private:
    struct death {
        std::int64_t begin = 0, end = 0;
        bool alone = false;
    };
    struct generation {
        const turn* t = nullptr;
        std::string client;
        std::int64_t n = 0;  ///< tokens said, those accepted before included
        std::uint64_t arrival = 0;
        bool stalled = false, over = false, started = false;
        std::vector<death> deaths;  ///< in steps that computed these positions, not from outside
    };
    struct row {
        generation_id id = 0;
        std::int64_t pos = 0, n = 0;
    };

    void tokens(generation_id id, generation& g, const generation_tokens& t);
    void finished(generation_id id, generation& g, const generation_finished& f, const scheduler_policy& p);
    void check_poison(generation_id id, const generation& g);
    void check_fairness(const scheduler_policy& p);
    bool waits(const scheduler_policy& p, const std::string& client) const;

    context& c_;
    std::map<generation_id, generation> generations_;
    std::map<sequence_id, generation_id> sequences_;
    std::map<std::uint64_t, std::vector<row>> plans_;
    std::set<generation_id> must_end_;
    std::map<std::string, double> served_;  ///< prompt tokens computed at first, and twice the tokens made
    std::map<std::pair<std::string, std::string>, double> lead_;  ///< of one over the other when both began to wait
    double largest_ = 0;                                          ///< request
    bool moved_ = false, changed_ = false, suspects_ = false;
    steady_time checked_{};
    duration standstill_{};  ///< with work, a good executor, and nothing moving
};

}  // namespace troupe::actors::sim
