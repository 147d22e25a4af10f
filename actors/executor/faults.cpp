#include "actors/executor/faults.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>

#include <unistd.h>

#include "actors/plan.hpp"

namespace troupe::actors {
namespace {

struct kind_row {
    std::string_view name;
    bool fatal;
};
constexpr std::array kinds{kind_row{"crash", true}, kind_row{"abort", true}, kind_row{"exit", true},
    kind_row{"hang", true}, kind_row{"device_lost", true}, kind_row{"nan", false}, kind_row{"slow", false},
    kind_row{"alloc_fail", false}};

void die_by(int signal) {
    // Whoever installed a handler (a sanitizer) would turn the death into another one.
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}

void fire_fatal(std::string_view kind) {
    if (kind == "crash") die_by(SIGSEGV);
    if (kind == "abort") die_by(SIGABRT);
    if (kind == "exit") _exit(fault_exit);
    if (kind == "device_lost") _exit(device_lost_exit);
    for (;;) pause();  // hang
}

}  // namespace

bool known_fault(std::string_view kind) {
    return std::any_of(kinds.begin(), kinds.end(), [&](const kind_row& k) { return k.name == kind; });
}

bool fatal_fault(std::string_view kind) {
    return std::any_of(kinds.begin(), kinds.end(), [&](const kind_row& k) { return k.name == kind && k.fatal; });
}

bool fault_injector::arm(const executor_fault& f) {
    if (!known_fault(f.kind)) return false;
    std::lock_guard lock(mutex_);
    armed_.push_back({f.kind, std::max<std::int64_t>(f.after_steps, 0), f.times, f.slow_ms, f.only_watched});
    return true;
}

void fault_injector::count(armed& f) {
    --f.times;
    fired_(f.only_watched ? f.kind + std::string(watched_suffix) : f.kind);
}

fault_injector::step_faults fault_injector::begin_step(bool watched) {
    step_faults due;
    std::string fatal;
    std::vector<armed*> ready;
    std::unique_lock lock(mutex_);
    for (armed& f : armed_)
        if (f.steps_left > 0)
            --f.steps_left;
        else if (f.times > 0 && f.kind != "alloc_fail" && (!f.only_watched || watched))
            ready.push_back(&f);
    // A process dies once: what else was due in this step waits for the next executor.
    const auto deadly = std::find_if(ready.begin(), ready.end(), [](const armed* f) { return fatal_fault(f->kind); });
    if (deadly != ready.end()) ready = {*deadly};
    for (armed* waiting : ready) {
        armed& f = *waiting;
        count(f);
        if (f.kind == "nan") {
            due.nan = true;
            due.nan_watched_only = f.only_watched;
        } else if (f.kind == "slow") {
            due.slow_ms += f.slow_ms;
        } else {
            fatal = f.kind;
        }
    }
    std::erase_if(armed_, [](const armed& f) { return f.times <= 0; });
    lock.unlock();  // a hang must not hold it: the executor's actor arms faults too
    if (!fatal.empty()) fire_fatal(fatal);
    return due;
}

bool fault_injector::fail_commit() {
    std::lock_guard lock(mutex_);
    for (armed& f : armed_) {
        if (f.kind != "alloc_fail" || f.steps_left > 0 || f.times <= 0) continue;
        count(f);
        return true;
    }
    return false;
}

}  // namespace troupe::actors
