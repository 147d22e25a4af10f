#include "actors/supervisor/leak_watch.hpp"

#include <functional>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;

constexpr double mib = 1 << 20;
constexpr steady_time start{1h};

/// Verdicts over `hours` of one sample a minute; `bytes` gets the minute.
std::vector<leak_watch::verdict> watch(int hours, const std::function<double(int)>& bytes) {
    leak_watch w;
    std::vector<leak_watch::verdict> all;
    for (int minute = 0; minute <= 60 * hours; ++minute)
        if (const auto v = w.add(1, bytes(minute), start + minute * 1min)) all.push_back(*v);
    return all;
}
int warnings(const std::vector<leak_watch::verdict>& all) {
    int n = 0;
    for (const auto& v : all) n += v.leaking && v.news;
    return n;
}

TEST(leak_watch, slope_is_the_median_of_all_pairs) {
    EXPECT_FALSE(slope_per_hour({}).has_value());
    std::vector<memory_sample> line;
    for (int i = 0; i < 10; ++i) line.push_back({start + i * 30min, 100 + i * 5.0});
    EXPECT_DOUBLE_EQ(*slope_per_hour(line), 10);
    EXPECT_DOUBLE_EQ(rising_share(line), 1);
    line[3].bytes = 1e9;  // one that is out of line moves nothing
    EXPECT_DOUBLE_EQ(*slope_per_hour(line), 10);
}

TEST(leak_watch, a_steady_leak_is_said_once) {
    const auto all = watch(12, [](int minute) { return 200 * mib + minute * mib / 3; });  // 20 MiB an hour
    EXPECT_EQ(warnings(all), 1);
    EXPECT_NEAR(all.back().bytes_per_hour, 20 * mib, mib);
    EXPECT_TRUE(all.back().leaking);
}

TEST(leak_watch, work_that_comes_and_goes_is_no_leak) {
    std::mt19937 random(3);
    std::uniform_real_distribution<double> load(0, 900);
    EXPECT_EQ(warnings(watch(48, [&](int) { return 200 * mib + load(random) * mib; })), 0);
    EXPECT_EQ(warnings(watch(48, [](int minute) { return (minute / 360 % 2 == 0 ? 200 : 900) * mib; })), 0)
        << "a step is no slope, however high";
}

TEST(leak_watch, what_grows_at_first_and_then_stays_is_no_leak) {
    EXPECT_EQ(warnings(watch(24, [](int minute) { return (200 + 30 * std::min(minute, 15) / 15.0) * mib; })), 0);
}

TEST(leak_watch, another_process_begins_anew) {
    leak_watch w;
    int verdicts = 0;
    for (int minute = 0; minute < 24 * 60; ++minute)
        verdicts += w.add(1 + minute / 60, 200 * mib + minute * 9 * mib, start + minute * 1min).has_value();
    EXPECT_EQ(verdicts, 0) << "an hour is too short to say anything";
}

TEST(leak_watch, reads_what_the_kernel_says) {
    EXPECT_GT(private_bytes(getpid()), 100u << 10);
    EXPECT_EQ(private_bytes(0x3fffffff), 0u);
}

}  // namespace
}  // namespace troupe::actors
