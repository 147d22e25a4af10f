// The executor's process and the supervisor's decisions about it, in virtual time: it loads, works, dies at any
// message, hangs, is found out and started again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/supervisor/policy.hpp"
#include "context.hpp"
#include "fake_executor.hpp"

namespace troupe::actors::sim {

/// Who is told; calls come when the message arrives.
class executor_listener {
 public:
    virtual ~executor_listener() = default;
    virtual void executor_up(const executor_info& info) = 0;
    virtual void executor_down(std::uint64_t epoch, const std::string& reason, std::uint64_t plan_started) = 0;
    virtual void plan_done(const plan_result& r) = 0;
    virtual void job_done(const kv_job_result& r) = 0;
};

class executor_host {
 public:
    executor_host(context& c, executor_listener& listener) : c_(c), listener_(listener) {}

    void launch() { start(); }
    /// Takes its time, may find nobody.
    void send(plan p);
    void cancel(std::vector<sequence_id> ids);

    std::uint64_t deaths() const { return deaths_; }
    std::uint64_t hangs() const { return hangs_; }
    std::uint64_t circuits() const { return circuits_; }
    /// The front has been told that it is up, and it works.
    bool well() const { return phase_ == phase::up && !hung_; }
    const fake_executor* executor() const { return executor_.get(); }
    void memory_is_short(bool yes) { memory_short_ = yes; }

 private:
    enum class phase { loading, up, ending, waiting };

    void start();
    void loaded();
    void work();
    void step_over(std::optional<plan_result> r);
    void answer(plan_result r);
    void begin_jobs();
    void finish_job();
    void die(child_exit exit);
    void gone(child_exit exit);
    bool dies_now();
    double step_ms(const plan& p) const;
    void watch();
    std::uint64_t progress() const;
    executor_status status() const;

    context& c_;
    executor_listener& listener_;
    std::unique_ptr<fake_executor> executor_;
    phase phase_ = phase::waiting;
    life front_, child_;  ///< of the front this belongs to, and of the process
    channel plans_, cancels_, results_, news_;
    restart_policy policy_;
    stall_watch stall_;
    death_facts death_;
    bool busy_ = false, hung_ = false, watching_ = false, memory_short_ = false;
    steady_time step_began_{};
    std::uint64_t epoch_ = 0, steps_ = 0, plan_started_ = 0, deaths_ = 0, hangs_ = 0, circuits_ = 0;
    std::uint64_t deaths_without_step_ = 0;
    std::size_t jobs_awaited_ = 0;
    plan_result last_;  ///< what it said or would have said last
};

}  // namespace troupe::actors::sim
