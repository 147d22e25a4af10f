// Executors as child processes. One thread, as long-lived as the host, starts them (their death signal is tied to it),
// reads their socket and waits for their pidfd: no timer, no polling.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <fstream>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <caf/event_based_actor.hpp>
#include <caf/io/middleman.hpp>
#include <caf/io/middleman_actor.hpp>

#include "actors/executor/parent_line.hpp"
#include "actors/supervisor/predecessor.hpp"
#include "actors/supervisor/supervisor.hpp"
#include "core/check.hpp"
#include "core/log.hpp"

extern char** environ;

namespace troupe::actors {
namespace {

constexpr int child_socket_fd = 3, child_page_fd = 4;
constexpr auto connect_deadline = std::chrono::seconds(5);

class descriptor {
 public:
    descriptor() = default;
    explicit descriptor(int fd) : fd_(fd) {}
    ~descriptor() { reset(); }
    descriptor(descriptor&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
    descriptor& operator=(descriptor&& o) noexcept { return std::swap(fd_, o.fd_), *this; }
    void reset() {
        if (fd_ >= 0) close(std::exchange(fd_, -1));
    }
    int get() const { return fd_; }

 private:
    int fd_ = -1;
};

/// How many processes the kernel has killed for memory, on the whole machine.
std::uint64_t oom_kills() {
    std::ifstream in("/proc/vmstat");
    std::string key;
    for (std::uint64_t value; in >> key >> value;)
        if (key == "oom_kill") return value;
    return 0;
}

/// Where events go. Outlives the host: a connection attempt may still be under way.
struct event_sink {
    std::mutex mutex;
    std::function<void(child_event)> to;
    void send(child_event e) {
        std::lock_guard lock(mutex);
        if (to) to(std::move(e));
    }
};

/// A second number for a file, above those the child is to find its files at.
descriptor above_targets(int fd) { return descriptor(fcntl(fd, F_DUPFD_CLOEXEC, child_page_fd + 1)); }

/// What happens between fork and exec.
class spawn_setup {
 public:
    /// Neither may be one of the child's target numbers.
    spawn_setup(int socket_fd, int page_fd) {
        posix_spawn_file_actions_init(&files_);
        posix_spawn_file_actions_adddup2(&files_, socket_fd, child_socket_fd);
        posix_spawn_file_actions_adddup2(&files_, page_fd, child_page_fd);
        // Nothing else of the front's: a listening socket in a child would keep the port when the front is gone.
        posix_spawn_file_actions_addclosefrom_np(&files_, child_page_fd + 1);
        posix_spawnattr_init(&attributes_);
        sigset_t none, all;
        sigemptyset(&none);
        sigfillset(&all);
        posix_spawnattr_setsigmask(&attributes_, &none);
        posix_spawnattr_setsigdefault(&attributes_, &all);
        posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }
    ~spawn_setup() {
        posix_spawn_file_actions_destroy(&files_);
        posix_spawnattr_destroy(&attributes_);
    }
    spawn_setup(const spawn_setup&) = delete;
    spawn_setup& operator=(const spawn_setup&) = delete;

    int spawn(pid_t& pid, const std::string& program, std::vector<std::string> words) const {
        std::vector<char*> argv;
        for (auto& w : words) argv.push_back(w.data());
        argv.push_back(nullptr);
        return posix_spawn(&pid, program.c_str(), &files_, &attributes_, argv.data(), environ);
    }

 private:
    posix_spawn_file_actions_t files_;
    posix_spawnattr_t attributes_;
};

class process_host final : public child_host {
 public:
    process_host(caf::actor_system& system, executor_arguments arguments, std::string record, std::string program,
        std::vector<std::string> words)
        : system_(system), arguments_(std::move(arguments)), record_(std::move(record)), program_(std::move(program)),
          words_(std::move(words)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
        CHECK(wake_.get() >= 0);
        thread_ = std::thread([this] { loop(); });
    }
    ~process_host() override {
        {
            std::lock_guard lock(sink_->mutex);
            sink_->to = nullptr;
        }
        command({command_kind::quit});
        thread_.join();
    }

    void set_sink(std::function<void(child_event)> sink) override {
        std::lock_guard lock(sink_->mutex);
        sink_->to = std::move(sink);
    }
    void launch(std::uint64_t epoch, std::string cookie) override {
        auto page = shared_page::create();
        if (!page) {
            sink_->send({.epoch = epoch, .kind = child_event_kind::failed, .err = page.error()});
            return sink_->send({.epoch = epoch, .kind = child_event_kind::gone, .exit = {.code = 1}});
        }
        page_ = std::move(page).value();
        command({command_kind::launch, epoch, std::move(cookie), page_});
    }
    void stop(std::uint64_t epoch) override { command({command_kind::stop, epoch}); }
    void kill(std::uint64_t epoch) override { command({command_kind::kill, epoch}); }
    const progress_page* page() const override { return page_ ? &page_->page() : nullptr; }
    bool can_restart() const override { return true; }

 private:
    enum class command_kind { launch, stop, kill, quit };
    struct command_item {
        command_kind kind{};
        std::uint64_t epoch = 0;
        std::string cookie;
        std::shared_ptr<shared_page> page;
    };
    struct child {
        std::uint64_t epoch = 0;
        pid_t pid = 0;
        descriptor socket, pidfd;
        line_reader lines;
        std::uint64_t oom_kills_before = 0;
    };

    void command(command_item c) {
        {
            std::lock_guard lock(mutex_);
            commands_.push_back(std::move(c));
        }
        const std::uint64_t one = 1;
        CHECK(write(wake_.get(), &one, sizeof one) == sizeof one);
    }

    // ---- on the host's own thread
    // -------------------------------------------------------------------------------------
    void loop() {
        for (bool go = true; go;) {
            pollfd fds[3] = {{wake_.get(), POLLIN, 0}, {child_ ? child_->socket.get() : -1, POLLIN, 0},
                {child_ ? child_->pidfd.get() : -1, POLLIN, 0}};
            if (poll(fds, 3, -1) < 0) {
                CHECK(errno == EINTR);
                continue;
            }
            if (child_ && fds[2].revents != 0)
                reap();
            else if (child_ && fds[1].revents != 0)
                read_socket();
            if (fds[0].revents != 0) go = run_commands();
        }
        if (!child_) return;
        ::kill(child_->pid, SIGKILL);
        siginfo_t status{};
        waitid(P_PID, static_cast<id_t>(child_->pid), &status, WEXITED);
        forget_child(record_);
    }

    bool run_commands() {
        std::uint64_t count = 0;
        if (read(wake_.get(), &count, sizeof count) < 0) return true;
        std::deque<command_item> pending;
        {
            std::lock_guard lock(mutex_);
            pending.swap(commands_);
        }
        for (auto& c : pending) {
            if (c.kind == command_kind::quit) return false;
            if (c.kind == command_kind::launch) {
                start(c);
            } else if (child_ && child_->epoch == c.epoch) {
                if (c.kind == command_kind::kill)
                    ::kill(child_->pid, SIGKILL);
                else
                    write_all(child_->socket.get(), encode_line({.event = "stop"}));
            }
        }
        return true;
    }

    void start(const command_item& c) {
        CHECK(!child_, "one executor at a time");
        if (auto free = end_predecessor(record_, predecessor_deadline); !free) return refuse(c, free.error());
        int pair[2] = {-1, -1};
        int failed = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0 ? 0 : errno;
        child fresh{.epoch = c.epoch, .socket = descriptor(pair[0]), .oom_kills_before = oom_kills()};
        descriptor theirs(pair[1]);
        if (failed == 0) {
            executor_arguments a = arguments_;
            a.socket_fd = child_socket_fd;
            a.page_fd = child_page_fd;
            a.parent = getpid();
            std::vector<std::string> words{"troupe"};
            words.insert(words.end(), words_.begin(), words_.end());
            for (auto& w : to_words(a)) words.push_back(std::move(w));
            const descriptor socket = above_targets(theirs.get()), page = above_targets(c.page->fd());
            failed = spawn_setup(socket.get(), page.get()).spawn(fresh.pid, program_, std::move(words));
        }
        if (failed != 0)
            return refuse(c, fail(errc::not_ready, "cannot start " + program_ + ": " + std::strerror(failed)));
        if (!record_.empty()) record_child(record_, fresh.pid);
        fresh.pidfd = descriptor(static_cast<int>(syscall(SYS_pidfd_open, fresh.pid, 0)));
        CHECK(fresh.pidfd.get() >= 0, "Linux 5.3 or newer");
        child_.emplace(std::move(fresh));
        write_all(child_->socket.get(), encode_line({.event = "start", .cookie = c.cookie, .epoch = c.epoch}));
    }

    void refuse(const command_item& c, const error& why) {
        sink_->send({.epoch = c.epoch, .kind = child_event_kind::failed, .err = why});
        sink_->send({.epoch = c.epoch, .kind = child_event_kind::gone, .exit = {.code = 1}});
    }

    /// Reads what is there. At its end of file the child is as good as dead; it is made sure of.
    void read_socket() {
        char buffer[4096];
        for (;;) {
            const auto n = recv(child_->socket.get(), buffer, sizeof buffer, MSG_DONTWAIT);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0 && errno == EAGAIN) return;
            const bool good =
                n > 0 && child_->lines.feed({buffer, static_cast<std::size_t>(n)}, [this](std::string_view line) {
                    if (auto m = decode_line(line)) on_line(*m);
                });
            if (good) continue;
            ::kill(child_->pid, SIGKILL);
            child_->socket.reset();  // poll ignores it from now on
            return;
        }
    }

    void on_line(const line_message& m) {
        if (m.event == "ready") connect(m.port);
        if (m.event == "failed") sink_->send({.epoch = child_->epoch, .kind = child_event_kind::failed, .err = m.err});
        if (m.event == "fired")
            sink_->send({.epoch = child_->epoch, .kind = child_event_kind::fired, .fault = m.fault});
    }

    /// Its handshake may never come: an actor of its own waits for it.
    void connect(std::uint16_t port) {
        auto middleman = system_.middleman().actor_handle();
        system_.spawn([sink = sink_, epoch = child_->epoch, pid = child_->pid, port, middleman](
                          caf::event_based_actor* self) {
            self->request(middleman, connect_deadline, caf::connect_atom::value, std::string("127.0.0.1"), port)
                .then(
                    [=](const caf::node_id&, const caf::strong_actor_ptr& door, const std::set<std::string>&) {
                        sink->send({.epoch = epoch,
                            .kind = child_event_kind::door,
                            .door = caf::actor_cast<caf::actor>(door),
                            .pid = pid});
                    },
                    [=](const caf::error& e) {
                        sink->send({.epoch = epoch,
                            .kind = child_event_kind::failed,
                            .err = fail(errc::not_ready, "cannot reach the executor: " + self->system().render(e))});
                    });
        });
    }

    void reap() {
        if (child_->socket.get() >= 0) read_socket();
        siginfo_t status{};
        CHECK(waitid(P_PIDFD, static_cast<id_t>(child_->pidfd.get()), &status, WEXITED) == 0);
        child_exit e;
        if (status.si_code == CLD_EXITED)
            e.code = status.si_status;
        else
            e.signal = status.si_status;
        e.out_of_memory = e.signal == SIGKILL && oom_kills() > child_->oom_kills_before;
        const std::uint64_t epoch = child_->epoch;
        const std::int32_t pid = child_->pid;
        child_.reset();
        forget_child(record_);
        sink_->send({.epoch = epoch, .kind = child_event_kind::gone, .exit = e, .pid = pid});
    }

    caf::actor_system& system_;
    const executor_arguments arguments_;
    const std::string record_, program_;
    const std::vector<std::string> words_;
    std::shared_ptr<event_sink> sink_ = std::make_shared<event_sink>();
    std::shared_ptr<shared_page> page_;
    descriptor wake_;
    std::mutex mutex_;
    std::deque<command_item> commands_;
    std::optional<child> child_;  ///< touched by thread_ only
    std::thread thread_;
};

}  // namespace

std::unique_ptr<child_host> make_process_host(caf::actor_system& system, executor_arguments arguments,
    std::string record, std::string program, std::vector<std::string> program_words) {
    return std::make_unique<process_host>(
        system, std::move(arguments), std::move(record), std::move(program), std::move(program_words));
}

}  // namespace troupe::actors
