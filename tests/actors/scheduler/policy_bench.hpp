// A scheduler_policy with the simulation's fake executor, driven step by step.
#pragma once

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "actors/scheduler/policy.hpp"
#include "fake_executor.hpp"
#include "layouts.hpp"

namespace troupe::actors::test {

using namespace std::chrono_literals;

/// Of requests without end tokens.
inline std::vector<token_id> answer_of(const std::vector<token_id>& prompt, std::int64_t n) {
    return sim::answer_of(prompt, n, false);
}

inline policy_settings settings(int seqs = 4, int ahead = 2) {
    policy_settings s;
    s.max_seqs = seqs;
    s.run_ahead = ahead;
    return s;
}

struct policy_bench {
    explicit policy_bench(policy_settings s = {}, model::kv_layout layout = full_layout(), std::uint64_t segments = 64,
        std::int32_t n_ctx = 512)
        : policy(s), info(info_of(layout, segments, 0, n_ctx)) {}

    void up() {
        ++info.epoch;
        info.kv_disk = disk.room;
        info.images = disk.list();
        executor = std::make_unique<sim::fake_executor>(info, random, 0, &disk);
        policy.executor_up(info, now);
    }
    void down(const std::string& reason, std::uint64_t started = 0) {
        check_executor();
        policy.executor_down(info.epoch, reason, started ? started : executor->plan_started(), now);
        executor.reset();
        sent.clear();
        listen();
    }
    result<void> submit(
        generation_id id, std::vector<token_id> prompt, std::int64_t max_tokens = 8, const std::string& client = "a") {
        generation_request r;
        r.keep = keep;
        r.id = id;
        r.client_key = client;
        r.prompt = std::make_shared<const std::vector<token_id>>(std::move(prompt));
        r.params.max_tokens = max_tokens;
        return submit(std::move(r));
    }
    result<void> submit(generation_request r) {
        auto taken = policy.submit(std::move(r), now);
        listen();
        return taken;
    }
    /// Sends what can be sent. Returns the new plans.
    std::vector<plan> send() {
        std::vector<plan> plans;
        while (auto p = policy.next_plan(now)) {
            plans.push_back(*p);
            sent.push_back(*p);
            executor->receive(std::move(*p));
        }
        executor->cancel(policy.take_cancels());
        policy.tick(now);
        listen();
        policy.check();
        return plans;
    }
    /// Carries out the oldest plan in `ms`. Returns it.
    plan step(double ms = 10) {
        plan p = sent.front();
        sent.erase(sent.begin());
        auto r = executor->step();
        EXPECT_TRUE(r.has_value()) << "the executor died";
        now += std::chrono::microseconds(static_cast<std::int64_t>(ms * 1000));
        r->step_us = static_cast<std::uint64_t>(ms * 1000);
        policy.done(*r, now);
        listen();
        check_executor();
        return p;
    }
    /// Until nothing is left to send or do; what goes to the disk or comes from there is done when all else is.
    void run(int most = 1000) {
        for (send(); (!sent.empty() || executor->n_jobs() > 0) && most-- > 0; send()) {
            if (!sent.empty())
                step();
            else
                finish_job();
        }
    }
    void finish_job() {
        policy.job_done(executor->finish_job(), now);
        listen();
        check_executor();
    }
    void run_until_tokens(generation_id id, std::size_t n) {
        for (send(); got[id].size() < n && !sent.empty(); send()) step();
    }
    void check_executor() const {
        for (const auto& f : executor->faults) ADD_FAILURE() << f;
    }
    template <class T> std::vector<T> all(generation_id id) const {
        std::vector<T> out;
        for (const notice& n : notices)
            if (about(n) == id && std::holds_alternative<T>(n)) out.push_back(std::get<T>(n));
        return out;
    }
    generation_finished end(generation_id id) const {
        const auto ends = all<generation_finished>(id);
        EXPECT_EQ(ends.size(), 1u) << "generation " << id;
        return ends.empty() ? generation_finished{} : ends[0];
    }
    void listen() {
        for (notice& n : policy.take_notices()) {
            if (const auto* t = std::get_if<generation_tokens>(&n)) {
                EXPECT_EQ(t->n_before, static_cast<std::int64_t>(got[t->id].size()));
                for (const auto& a : t->tokens) got[t->id].push_back(a.id);
            }
            notices.push_back(std::move(n));
        }
    }

    sim::image_store disk;
    std::mt19937_64 random{1};
    steady_time now = steady_time{} + 1h;
    scheduler_policy policy;
    executor_info info;
    std::unique_ptr<sim::fake_executor> executor;
    std::vector<plan> sent;
    std::vector<notice> notices;
    std::map<generation_id, std::vector<token_id>> got;
    bool keep = true;  ///< of requests from now on
};

}  // namespace troupe::actors::test
