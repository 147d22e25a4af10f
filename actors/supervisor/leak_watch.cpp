#include "actors/supervisor/leak_watch.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <vector>

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;

constexpr auto bucket = 10min;
constexpr std::size_t least_buckets = 12, most_buckets = 36;  // two hours, six hours
constexpr double mib = 1 << 20;
constexpr double leak_per_hour = 8 * mib, leak_in_all = 32 * mib;
constexpr double leak_rises = 0.9, stays_rising = 0.6;  // share of pairs that grow: noise has a half, one step too

}  // namespace

std::optional<double> slope_per_hour(std::span<const memory_sample> samples) {
    std::vector<double> slopes;
    for (std::size_t i = 0; i < samples.size(); ++i)
        for (std::size_t j = i + 1; j < samples.size(); ++j) {
            const double hours = std::chrono::duration<double, std::ratio<3600>>(samples[j].at - samples[i].at).count();
            if (hours > 0) slopes.push_back((samples[j].bytes - samples[i].bytes) / hours);
        }
    if (slopes.empty()) return std::nullopt;
    const auto middle = slopes.begin() + static_cast<std::ptrdiff_t>(slopes.size() / 2);
    std::nth_element(slopes.begin(), middle, slopes.end());
    return *middle;
}

double rising_share(std::span<const memory_sample> samples) {
    std::size_t rising = 0, pairs = 0;
    for (std::size_t i = 0; i < samples.size(); ++i)
        for (std::size_t j = i + 1; j < samples.size(); ++j, ++pairs) rising += samples[j].bytes > samples[i].bytes;
    return pairs == 0 ? 0 : static_cast<double>(rising) / static_cast<double>(pairs);
}

std::optional<leak_watch::verdict> leak_watch::add(std::int64_t process, double bytes, steady_time now) {
    if (!any_ || process != process_) {
        *this = {};
        process_ = process;
        any_ = true;
        since_ = now;
        low_ = {now, bytes};
        return std::nullopt;
    }
    if (now - since_ < bucket) {
        if (bytes < low_.bytes) low_ = {now, bytes};
        return std::nullopt;
    }
    lows_.push_back(low_);
    if (lows_.size() > most_buckets) lows_.pop_front();
    since_ = now;
    low_ = {now, bytes};
    if (lows_.size() < least_buckets) return std::nullopt;
    const std::vector<memory_sample> window(lows_.begin(), lows_.end());
    verdict v{slope_per_hour(window).value_or(0)};
    const double grown = window.back().bytes - window.front().bytes, rising = rising_share(window);
    // Less ends it than begins it, so that a figure at the bound does not warn again and again.
    v.leaking = leaking_ ? v.bytes_per_hour > leak_per_hour / 2 && rising > stays_rising
                         : v.bytes_per_hour > leak_per_hour && grown > leak_in_all && rising > leak_rises;
    v.news = v.leaking != leaking_;
    leaking_ = v.leaking;
    return v;
}

std::uint64_t private_bytes(std::int64_t pid) {
    std::ifstream in("/proc/" + std::to_string(pid) + "/status");
    std::uint64_t kib = 0;
    for (std::string line; std::getline(in, line);)
        if (line.starts_with("RssAnon:") || line.starts_with("VmSwap:"))
            kib += std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10);
    return kib << 10;
}

}  // namespace troupe::actors
