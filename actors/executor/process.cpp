#include "actors/executor/process.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <caf/actor_system.hpp>
#include <caf/io/middleman.hpp>

#include "actors/executor/executor_actor.hpp"
#include "actors/executor/model_backend.hpp"
#include "actors/executor/parent_line.hpp"
#include "actors/executor/progress_page.hpp"
#include "actors/executor/worker.hpp"
#include "actors/system.hpp"
#include "core/log.hpp"

namespace troupe::actors {
namespace {

/// First of all: from here on the front's death is ours. False if the front died before.
bool die_with_parent(std::int32_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return parent == 0 || getppid() == parent;
}

void ignore_terminal_signals() {
    std::signal(SIGINT, SIG_IGN);
    std::signal(SIGTERM, SIG_IGN);
    std::signal(SIGPIPE, SIG_IGN);
}

/// A wish: when memory runs out this process goes before the front, and no gigabytes of core are written when it dies.
void yield_to_others(std::int32_t nice_by) {
    constexpr int oom_step = 500, oom_max = 1000;
    int current = 0;
    std::ifstream("/proc/self/oom_score_adj") >> current;
    std::ofstream("/proc/self/oom_score_adj") << std::min(current + oom_step, oom_max);
    if (nice_by != 0) setpriority(PRIO_PROCESS, 0, std::clamp(nice_by, -20, 19));
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
}

/// Reads the socket until `line` says enough or the front is gone.
template <class Line> void read_lines(int fd, line_reader& reader, Line&& line) {
    char buffer[4096];
    for (bool more = true; more;) {
        const auto n = read(fd, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        more = reader.feed({buffer, static_cast<std::size_t>(n)}, [&](std::string_view text) {
            if (const auto m = decode_line(text); m && more) more = line(*m);
        }) && more;
    }
}

/// Everything of a running executor; the threads in it end with the process.
class executor_process {
 public:
    executor_process(const executor_arguments& a, progress_page& page, line_message start)
        : fd_(a.socket_fd), page_(page), start_(std::move(start)), config_({.threads = 1}), system_(config_) {}

    void begin(backend_loader load) {
        sink_ = std::make_shared<result_sink>();
        // The worker is handed out in loaded(), on its own thread, which may come before make_shared returns: hence the
        // lock.
        std::lock_guard lock(mutex_);
        work_ = std::make_shared<worker>(std::move(load), page_,
            worker_callbacks{.loaded = [this](result<executor_info> i) { loaded(std::move(i)); },
                .done = [this](plan_result r) { sink_->send(std::move(r)); },
                .job_done =
                    [this](kv_job_result r) {
                        r.epoch = start_.epoch;
                        sink_->send(std::move(r));
                    },
                .fired = [this](std::string_view kind) { up({.event = "fired", .fault = std::string(kind)}); }});
    }

 private:
    void up(const line_message& m) { write_all(fd_, encode_line(m)); }

    void loaded(result<executor_info> loaded) {
        if (!loaded) fail_with(loaded.error());
        std::lock_guard lock(mutex_);
        executor_info& info = *loaded;
        info.epoch = start_.epoch;
        info.pid = getpid();
        auto door = spawn_door(
            system_, {work_, sink_, info, [] { end_without_link(); }}, start_.cookie, [this] { close_port(); });
        const auto port = system_.middleman().publish(door, 0, "127.0.0.1");
        if (!port)
            fail_with(fail(errc::not_ready, "the executor cannot listen on loopback: " + system_.render(port.error())));
        door_ = door;
        port_.store(*port);
        log::info("executor_ready epoch={} pid={} kernels={} threads={} n_ctx={} kv_segments={}", info.epoch, info.pid,
            info.kernels, info.n_threads, info.n_ctx, info.max_segments);
        up({.event = "ready",
            .port = *port,
            .pid = info.pid,
            .build = std::string(build_version),
            .numerics_id = info.numerics_id});
    }

    /// Nobody could tell this process anything any more: a successor has a new connection at once, while the front
    /// would notice only that questions about health stay unanswered.
    [[noreturn]] static void end_without_link() {
        log::error("executor_link_lost");
        _exit(info(errc::internal).exit_code);
    }

    [[noreturn]] void fail_with(const error& e) {
        log::error("executor_load_failed code={} message=\"{}\"", info(e.code).name, e.message);
        up({.event = "failed", .err = e});
        _exit(info(e.code).exit_code);
    }

    /// The front is in: nobody else may come.
    void close_port() { caf::anon_send(system_.middleman().actor_handle(), caf::close_atom::value, port_.load()); }

    int fd_;
    progress_page& page_;
    line_message start_;
    system_config config_;
    caf::actor_system system_;
    std::mutex mutex_;
    std::shared_ptr<result_sink> sink_;
    std::shared_ptr<worker> work_;
    caf::actor door_;
    std::atomic<std::uint16_t> port_{0};
};

}  // namespace

int run_executor(const executor_arguments& arguments) { return run_executor(arguments, load_model(arguments)); }

int run_executor(const executor_arguments& arguments, backend_loader load) {
    if (!die_with_parent(arguments.parent)) return 0;
    ignore_terminal_signals();
    log::set_level(arguments.log_level);
    yield_to_others(arguments.nice);
    auto page = shared_page::open(arguments.page_fd);
    if (!page) {
        log::error("executor_refused message=\"{}\"", page.error().message);
        return info(page.error().code).exit_code;
    }
    line_reader reader;
    line_message start;
    read_lines(arguments.socket_fd, reader, [&](const line_message& m) {
        start = m;
        return false;
    });
    if (start.event != "start") return 0;  // the front is gone already
    // Never freed: the process ends by _exit, since the worker may be stuck in a device call by then.
    auto* process = new executor_process(arguments, (*page)->page(), std::move(start));
    process->begin(std::move(load));
    read_lines(arguments.socket_fd, reader, [](const line_message& m) { return m.event != "stop"; });
    std::fflush(nullptr);
    _exit(0);
}

}  // namespace troupe::actors
