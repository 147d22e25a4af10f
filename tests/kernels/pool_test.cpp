// Thread pool: every task exactly once, effects visible to the caller, steps nest, and idle helpers use no processor
// time.
#include "kernels/pool.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <time.h>

#include <atomic>
#include <numeric>
#include <vector>

namespace troupe::kernels {
namespace {

/// Runs n tasks that write plain memory, and sees that each ran once and that its write is visible here.
void expect_each_once(pool& p, std::int64_t n) {
    std::vector<int> runs(static_cast<std::size_t>(n), 0);
    std::atomic<bool> bad_thread{false};
    p.run(n, [&](std::int64_t i, int thread) {
        runs[static_cast<std::size_t>(i)] += 1;
        if (thread < 0 || thread >= p.size()) bad_thread = true;
    });
    for (const int count : runs) ASSERT_EQ(count, 1);
    ASSERT_FALSE(bad_thread);
}

TEST(pool, size_one_runs_on_the_caller) {
    pool p(1);
    EXPECT_EQ(p.size(), 1);
    const pthread_t self = pthread_self();
    p.run(5, [&](std::int64_t, int thread) {
        EXPECT_EQ(thread, 0);
        EXPECT_TRUE(pthread_equal(self, pthread_self()));
    });
    expect_each_once(p, 17);
}

TEST(pool, no_tasks) {
    pool p(3);
    p.run(0, [](std::int64_t, int) { FAIL(); });
}

TEST(pool, tiny_runs_inside_and_outside_steps) {
    for (const int threads : {2, 3, 5}) {
        pool p(threads);
        for (int round = 0; round < 300; ++round) {
            if (round % 50 == 10) p.begin_step();
            expect_each_once(p, round % 9);
            if (round % 50 == 40) p.end_step();
        }
    }
}

TEST(pool, plain_memory_flows_from_run_to_run) {
    pool p(3);
    std::vector<std::int64_t> values(64, 0), expected(64, 0);
    const auto next = [](std::int64_t value, std::int64_t i) { return (value * 31 + i) % 1000003; };
    p.begin_step();
    for (int round = 0; round < 5000; ++round)
        p.run(64, [&](std::int64_t i, int) {
            values[static_cast<std::size_t>(i)] = next(values[static_cast<std::size_t>(i)], i);
        });
    p.end_step();
    for (int round = 0; round < 5000; ++round)
        for (std::int64_t i = 0; i < 64; ++i)
            expected[static_cast<std::size_t>(i)] = next(expected[static_cast<std::size_t>(i)], i);
    EXPECT_EQ(values, expected);
}

TEST(pool, steps_nest) {
    pool p(2);
    p.begin_step();
    p.begin_step();
    expect_each_once(p, 10);
    p.end_step();
    expect_each_once(p, 10);
    p.end_step();
    expect_each_once(p, 10);
}

TEST(pool, many_pools_start_and_stop) {
    for (int i = 0; i < 50; ++i) {
        pool p(1 + i % 4);
        if (i % 2 == 0) expect_each_once(p, 3);
    }
}

double process_seconds() {
    rusage u{};
    getrusage(RUSAGE_SELF, &u);
    return static_cast<double>(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

double clock_seconds(clockid_t clock) {
    timespec t{};
    clock_gettime(clock, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// While this thread computes for a while, helpers outside a step add nothing to the processor time of the process: a
/// spinning helper would double it.
TEST(pool, idle_helpers_use_no_processor_time) {
    pool p(4);
    p.begin_step();
    expect_each_once(p, 100);
    p.end_step();
    expect_each_once(p, 100);
    const auto compute = [](double seconds) {
        volatile double sink = 0;
        const double start = clock_seconds(CLOCK_THREAD_CPUTIME_ID);
        while (clock_seconds(CLOCK_THREAD_CPUTIME_ID) - start < seconds) sink = sink + 1;
    };
    compute(0.05);  // helpers fall asleep
    const double before = process_seconds(), mine = clock_seconds(CLOCK_THREAD_CPUTIME_ID);
    compute(0.3);
    const double all = process_seconds() - before, own = clock_seconds(CLOCK_THREAD_CPUTIME_ID) - mine;
    EXPECT_LT(all, 1.2 * own);
}

}  // namespace
}  // namespace troupe::kernels
