// One seeded run: clients, a scheduler, an executor that dies, memory that is short, all in virtual time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "actors/scheduler/policy.hpp"
#include "fake_executor.hpp"

namespace troupe::actors::sim {

/// What can happen in a run; everything drawn from the seed.
struct world {
    std::uint64_t seed = 1;
    int n_requests = 30, n_clients = 3;
    policy_settings settings;
    executor_info info;
    double death = 0, commit_failure = 0, cancel = 0, stop = 0, follow_up = 0.3;
    int killers = 0, not_finite = 0;
    double shrink = 0;
    std::uint64_t disk = 0;                 ///< bytes for KV images
    double damage = 0;                      ///< chance that an image is damaged
    double stale = 0;                       ///< chance that a dead executor's last result arrives late
    bool deaths_look_like_crashes = false;  ///< else like kills from outside, of which nobody is suspected
};
/// Sizes, windows, memory and faults drawn from the seed.
world draw_world(std::uint64_t seed);

class simulation {
 public:
    explicit simulation(world w);
    /// Runs until nothing is left to do. What went wrong; empty is good.
    std::vector<std::string> run();
    const scheduler_policy& policy() const { return policy_; }

    struct request {
        generation_id id = 0;
        std::string client;
        std::vector<token_id> prompt, got;
        std::int64_t max_tokens = 0;
        std::optional<std::int64_t> stop_at;
        bool cancelled = false, submitted = false, killer = false, poisoned = false;
        int finished = 0;
        bool stalled = false;
        generation_finished end;
        steady_time submitted_at{}, first_at{}, end_at{};
    };
    const std::map<generation_id, request>& requests() const { return requests_; }

 private:
    struct happening {
        steady_time at;
        std::uint64_t order;
        std::function<void()> what;
        bool operator<(const happening& o) const { return std::pair{at, order} > std::pair{o.at, o.order}; }
    };

    void after(double ms, std::function<void()> f);
    double uniform(double a, double b) { return std::uniform_real_distribution<>(a, b)(random_); }
    int pick(int a, int b) { return std::uniform_int_distribution<>(a, b)(random_); }
    bool chance(double p) { return uniform(0, 1) < p; }
    void wrong(const std::string& what);

    void arrive(generation_id id);
    void add_request(std::vector<token_id> prompt, std::string client, double in_ms);
    std::vector<token_id> draw_prompt();
    void pump();
    void start_step();
    void finish_step(std::uint64_t life, plan_result r);
    void finish_jobs();
    void die(const std::string& reason);
    void come_up();
    void take(const notice& n);
    void take_end(request& r, const generation_finished& f);
    void check_end();

    world world_;
    std::mt19937_64 random_;
    steady_time now_{};
    std::uint64_t order_ = 0, life_ = 0;
    std::priority_queue<happening> future_;
    std::optional<steady_time> alarm_;
    scheduler_policy policy_;
    fake_disk disk_;
    std::unique_ptr<fake_executor> executor_;
    std::size_t jobs_awaited_ = 0;
    bool busy_ = false;
    std::uint64_t epoch_ = 0;
    int deaths_ = 0;
    generation_id next_id_ = 1;
    std::vector<std::vector<token_id>> preambles_;
    std::map<generation_id, request> requests_;
    std::vector<std::string> wrong_;
};

}  // namespace troupe::actors::sim
