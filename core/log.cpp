#include "core/log.hpp"

#include <atomic>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace troupe::log {
namespace {

std::atomic<int> threshold{static_cast<int>(level::info)};

spdlog::logger& logger() {
    // Flushed at every line: a log that ends before the crash it should explain is no log.
    static const auto instance = [] {
        auto l = std::make_shared<spdlog::logger>("troupe", std::make_shared<spdlog::sinks::stderr_sink_mt>());
        l->set_pattern("ts=%Y-%m-%dT%H:%M:%S.%e level=%l pid=%P event=%v");
        l->set_level(spdlog::level::trace);
        l->flush_on(spdlog::level::trace);
        return l;
    }();
    return *instance;
}

}  // namespace

void set_level(std::string_view name) {
    static constexpr std::string_view names[] = {"trace", "debug", "info", "warn", "error", "off"};
    for (int i = 0; i < 6; ++i)
        if (names[i] == name) threshold = i;
}

bool enabled(level l) { return static_cast<int>(l) >= threshold.load(std::memory_order_relaxed); }

void write(level l, std::string_view text) {
    static constexpr spdlog::level::level_enum levels[] = {
        spdlog::level::trace, spdlog::level::debug, spdlog::level::info, spdlog::level::warn, spdlog::level::err};
    if (l != level::off) logger().log(levels[static_cast<int>(l)], text);
}

}  // namespace troupe::log
