// Logging: logfmt lines on stderr through spdlog. No prompt or answer text is ever logged.
#pragma once

#include <string_view>

#include <fmt/format.h>

namespace troupe::log {

enum class level : int { trace, debug, info, warn, error, off };

void set_level(std::string_view name);  ///< one of the names of --log-level
bool enabled(level l);
void write(level l, std::string_view text);

/// log::info("executor_up epoch={} pid={}", epoch, pid): an event name, then key=value pairs.
template <class... T> void debug(fmt::format_string<T...> f, T&&... a) {
    if (enabled(level::debug)) write(level::debug, fmt::format(f, std::forward<T>(a)...));
}
template <class... T> void info(fmt::format_string<T...> f, T&&... a) {
    if (enabled(level::info)) write(level::info, fmt::format(f, std::forward<T>(a)...));
}
template <class... T> void warn(fmt::format_string<T...> f, T&&... a) {
    if (enabled(level::warn)) write(level::warn, fmt::format(f, std::forward<T>(a)...));
}
template <class... T> void error(fmt::format_string<T...> f, T&&... a) {
    if (enabled(level::error)) write(level::error, fmt::format(f, std::forward<T>(a)...));
}

}  // namespace troupe::log
