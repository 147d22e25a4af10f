#include "actors/supervisor/policy.hpp"

#include <algorithm>
#include <array>
#include <csignal>

#include "actors/executor/faults.hpp"
#include "core/limits.hpp"

namespace troupe::actors {

std::string_view name(death_cause c) {
    constexpr std::array<std::string_view, 9> names{
        "crash", "abort", "hang", "exit", "killed", "oom_killed", "device_lost", "load_failed", "operator"};
    return names[static_cast<std::size_t>(c)];
}

death_cause classify(const death_facts& d) {
    if (d.operator_restart) return death_cause::operator_restart;
    if (d.stuck) return death_cause::hang;
    if (d.load_failed) return death_cause::load_failed;
    if (d.exit.out_of_memory) return death_cause::oom_killed;
    if (d.exit.signal == SIGABRT) return death_cause::abort;
    if (d.exit.signal == SIGKILL || d.exit.signal == SIGTERM) return death_cause::killed;
    if (d.exit.signal != 0) return death_cause::crash;
    return d.exit.code == device_lost_exit ? death_cause::device_lost : death_cause::exit;
}

std::string describe(death_cause c, const child_exit& e) {
    std::string text(name(c));
    if (c == death_cause::hang || c == death_cause::operator_restart) return text;
    return text + (e.signal != 0 ? " (signal " + std::to_string(e.signal) : " (exit code " + std::to_string(e.code)) +
           ")";
}

restart_policy::decision restart_policy::on_death(const death& d, double jitter) {
    if (d.cause == death_cause::operator_restart) return {};
    // Somebody outside killed a process that was well: that says nothing about what the next one will do.
    if (d.cause == death_cause::killed && d.was_ready) {
        if (d.stepped) deaths_ = 0;
        return {};
    }
    deaths_ = d.stepped ? 1 : deaths_ + 1;
    if (deaths_ >= limits::deaths_to_open_circuit) return {true, limits::circuit_retry};
    if (deaths_ == 1) return {};
    auto delay = limits::restart_backoff_first * (1 << std::min(deaths_ - 2, 20));
    delay = std::min<std::chrono::milliseconds>(delay, limits::restart_backoff_max);
    return {false, std::chrono::milliseconds(
                       static_cast<std::int64_t>(static_cast<double>(delay.count()) * (0.75 + 0.5 * jitter)))};
}

duration progress_deadline(std::uint64_t tick_ns) {
    const auto measured = static_cast<double>(tick_ns) * limits::progress_deadline_factor;
    return std::max<duration>(limits::min_progress_deadline, duration(static_cast<std::int64_t>(measured)));
}

duration stall_watch::observe(steady_time now, std::uint64_t counter, bool busy) {
    if (!busy || counter != last_) since_ = now;
    last_ = counter;
    return now - since_;
}

}  // namespace troupe::actors
