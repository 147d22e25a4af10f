#include "actors/supervisor/predecessor.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <sstream>

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/log.hpp"

namespace troupe::actors {
namespace {

struct identity {
    std::int32_t pid = 0;
    std::string started, boot;
    bool operator==(const identity&) const = default;
};

/// Empty fields: there is no such process.
identity identify(std::int32_t pid) {
    identity who{.pid = pid};
    std::ifstream("/proc/sys/kernel/random/boot_id") >> who.boot;
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(stat, text);
    const auto end_of_name = text.rfind(')');
    if (end_of_name == std::string::npos) return who;
    std::istringstream rest(text.substr(end_of_name + 1));
    constexpr int start_time = 22 - 2;  // the two before it are the pid and the name
    for (int field = 0; field < start_time; ++field) rest >> who.started;
    return who;
}

}  // namespace

void record_child(const std::string& file, std::int32_t pid) {
    const auto who = identify(pid);
    std::ofstream out(file, std::ios::trunc);
    out << who.pid << ' ' << who.started << ' ' << who.boot << '\n';
    if (!out.flush()) log::warn("child_not_recorded file={}", file);
}

void forget_child(const std::string& file) { std::remove(file.c_str()); }

result<void> end_predecessor(const std::string& file, std::chrono::milliseconds deadline) {
    identity known;
    if (!(std::ifstream(file) >> known.pid >> known.started >> known.boot) || known.pid <= 1) return {};
    // Opened before the comparison: from here on the number cannot come to mean another process.
    const int watched = static_cast<int>(syscall(SYS_pidfd_open, known.pid, 0));
    if (watched < 0) return forget_child(file), result<void>{};
    bool gone = true;
    if (identify(known.pid) == known) {
        log::warn("predecessor_ended pid={}", known.pid);
        syscall(SYS_pidfd_send_signal, watched, SIGKILL, nullptr, 0);
        pollfd death{.fd = watched, .events = POLLIN, .revents = 0};
        gone = poll(&death, 1, static_cast<int>(deadline.count())) == 1;
    }
    close(watched);
    if (!gone)
        return fail(
            errc::not_ready, "the executor of an earlier run (process " + std::to_string(known.pid) + ") does not end");
    forget_child(file);
    return {};
}

}  // namespace troupe::actors
