// troupe serve: engine + network, signals, and the order in which everything goes down.
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>

#include "actors/engine.hpp"
#include "cli/commands.hpp"
#include "cli/service_manager.hpp"
#include "core/limits.hpp"
#include "core/log.hpp"
#include "core/metrics.hpp"
#include "core/service_environment.hpp"
#include "net/server.hpp"

namespace troupe::cli {
namespace {

/// What ends the command: a signal, or a model that cannot be served.
class ending {
 public:
    void fail_with(error e) {
        const std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::move(e);
        changed_.notify_all();
    }
    void stop() {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
        changed_.notify_all();
    }
    std::optional<error> wait() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopped_ || failure_; });
        return failure_;
    }

 private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool stopped_ = false;
    std::optional<error> failure_;
};

sigset_t watched_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGUSR2}) sigaddset(&set, s);
    return set;
}

/// One thread receives the signals; SIGUSR2 from ourselves ends it.
class signal_thread {
 public:
    signal_thread(ending& end, std::function<void()> on_hangup) {
        thread_ = std::thread([&end, on_hangup = std::move(on_hangup)] {
            const auto set = watched_signals();
            for (int s = 0; sigwait(&set, &s) == 0 && s != SIGUSR2;) {
                if (s == SIGHUP)
                    on_hangup();
                else
                    end.stop();
            }
        });
    }
    ~signal_thread() {
        pthread_kill(thread_.native_handle(), SIGUSR2);
        thread_.join();
    }

 private:
    std::thread thread_;
};

/// For a process that runs for months: large buffers (snapshots, bodies) go back to the system when they are freed, and
/// few heaps share what is left. glibc's own choice keeps up to 32 MiB a heap and has a heap for every thread.
void give_memory_back() {
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    mallopt(M_TRIM_THRESHOLD, 512 << 10);
    mallopt(M_ARENA_MAX, 2);
}

/// The usual soft limit (1,024) is for programs that use select(); thousands of clients may be connected.
void raise_descriptor_limit() {
    rlimit files{};
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= files.rlim_max) return;
    const auto before = std::exchange(files.rlim_cur, files.rlim_max);
    if (setrlimit(RLIMIT_NOFILE, &files) != 0) log::warn("descriptor_limit_kept limit={}", before);
}

}  // namespace

int serve(const config& c) {
    log::set_level(c.log_level);
    give_memory_back();
    raise_descriptor_limit();
    std::signal(SIGPIPE, SIG_IGN);
    const auto set = watched_signals();
    pthread_sigmask(SIG_BLOCK, &set, nullptr);  // before any thread exists, so that all inherit it

    auto meters = std::make_shared<metrics>(c.metrics_compat);
    ending end;
    service_manager manager(read_service_environment());
    actors::start_callbacks callbacks;
    callbacks.ready = [&manager] {
        log::info("ready");
        manager.ready();
    };
    callbacks.failed = [&end](error e) { end.fail_with(std::move(e)); };
    auto engine = actors::engine::start(c, std::move(callbacks), meters);
    if (!engine) return report(engine.error());

    auto server = net::server::start(c, (*engine)->sessions(), (*engine)->control(), *meters, version_text());
    if (!server) {
        (*engine)->shutdown(limits::drain_deadline);
        return report(server.error());
    }
    fmt::print("listening on {}\n", (*server)->url());
    std::fflush(stdout);
    manager.watch(
        (*engine)->control(), [&server](std::chrono::milliseconds within) { return (*server)->answers(within); });

    std::optional<error> failure;
    {
        const signal_thread signals(end, [&server] { (*server)->reload(); });
        failure = end.wait();
    }
    manager.stopping();
    // Clients first get their last events from the engine, then their sockets are closed.
    (*server)->stop_accepting();
    // What is journaled goes on at the next start; what is not may end first.
    if (!failure) (*engine)->drain(limits::drain_deadline);
    (*engine)->shutdown(limits::drain_deadline);
    (*server)->shutdown(std::chrono::milliseconds(1500));
    if (failure) return report(*failure);
    log::info("stopped");
    return 0;
}

}  // namespace troupe::cli
