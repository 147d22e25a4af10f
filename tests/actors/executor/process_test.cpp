// Real executor processes (fake backend), killed in every way at random moments.
#include <csignal>
#include <cstdlib>
#include <future>
#include <random>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/supervisor/supervisor.hpp"
#include "actors/system.hpp"
#include "core/limits.hpp"
#include "tests/actors/executor/plan_helper.hpp"

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;
using test::plan_writer;

std::string fake_executor() {
    const char* path = std::getenv("TROUPE_FAKE_EXECUTOR");
    EXPECT_NE(path, nullptr);
    return path != nullptr ? path : "";
}

/// Neither running nor a zombie.
bool gone(pid_t pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; }

struct seen {
    std::string what;  ///< up, down, result
    std::uint64_t epoch = 0;
    std::int32_t pid = 0;
    std::string reason;
    std::uint64_t plan_started = 0;
};

/// Stands for the scheduler: keeps one sequence decoding on every incarnation and writes down what it hears.
class recorder {
 public:
    void put(seen s) {
        std::lock_guard lock(mutex_);
        all_.push_back(std::move(s));
        more_.notify_all();
    }
    /// The next event of this kind; results in between are skipped.
    seen wait(const std::string& what) {
        std::unique_lock lock(mutex_);
        for (;; ++next_) {
            if (!more_.wait_for(lock, 20s, [&] { return next_ < all_.size(); })) {
                ADD_FAILURE() << "no " << what;
                return {};
            }
            if (all_[next_].what == what) return all_[next_++];
        }
    }
    std::vector<seen> all() {
        std::lock_guard lock(mutex_);
        return all_;
    }

 private:
    std::mutex mutex_;
    std::condition_variable more_;
    std::vector<seen> all_;
    std::size_t next_ = 0;
};

struct scheduler_state {
    caf::actor executor;
    plan_writer writer;
    std::int32_t pos = 0;
};

caf::behavior fake_scheduler(caf::stateful_actor<scheduler_state>* self, std::shared_ptr<recorder> seen) {
    const auto next = [self] {
        auto& s = self->state;
        plan p = s.writer.next();
        if (s.pos == 0) s.writer.open(p, 1, {1, 2, 3}, 3, {.max_tokens = 1'000'000});
        s.writer.row(p, 1, s.pos, s.pos == 0 ? 3 : 1, true);
        s.pos += s.pos == 0 ? 3 : 1;
        self->send(s.executor, std::move(p));
    };
    return {
        [=](executor_up& up) {
            seen->put({"up", up.info.epoch, up.info.pid});
            self->state = {up.executor, plan_writer({4}, up.info.epoch), 0};
            next();
        },
        [=](const executor_down& down) {
            seen->put({"down", down.epoch, 0, down.reason, down.plan_started});
            self->state.executor = nullptr;
        },
        [=](const plan_result& r) {
            seen->put({"result", r.epoch, 0, "", r.plan});
            if (self->state.executor && self->state.pos < 400) next();
        },
        [](const fault_spec&) {},
    };
}

class process_test : public ::testing::Test {
 public:
    void start(std::string model = "fake", bool faults = true) {
        scheduler_ = system_.spawn(fake_scheduler, seen_);
        const executor_arguments a{.model = std::move(model), .log_level = "off"};
        supervisor_ = spawn_supervisor(system_, {.executor = a, .fault_injection = faults},
            make_process_host(system_, a, record_, fake_executor(), {}), scheduler_,
            {.first_start = [this](result<executor_info> i) { first_.set_value(std::move(i)); },
                .health_changed = [](const health_report&) {}});
    }
    ~process_test() override {
        if (supervisor_) {
            EXPECT_TRUE(ask<bool>(drain_atom::value));
        }
        caf::anon_send_exit(scheduler_, caf::exit_reason::kill);
        for (const pid_t pid : pids_) EXPECT_TRUE(gone(pid)) << pid;
    }
    template <class T, class... Args> T ask(Args&&... args) {
        caf::scoped_actor self{system_};
        T value{};
        self->request(supervisor_, 30s, std::forward<Args>(args)...)
            .receive([&](T& v) { value = std::move(v); },
                [&](const caf::error& e) { ADD_FAILURE() << from_caf_error(e).message; });
        return value;
    }
    seen up() {
        auto s = seen_->wait("up");
        pids_.push_back(s.pid);
        return s;
    }

    system_config config_{{.threads = 2}};
    caf::actor_system system_{config_};
    std::shared_ptr<recorder> seen_ = std::make_shared<recorder>();
    std::promise<result<executor_info>> first_;
    caf::actor scheduler_, supervisor_;
    std::vector<pid_t> pids_;
    std::string record_;
};

TEST_F(process_test, survives_twenty_deaths_in_order_and_leaves_no_zombie) {
    start();
    std::mt19937 random(7);
    auto current = up();
    EXPECT_EQ(current.epoch, 1u);
    for (int i = 0; i < 20; ++i) {
        // After a few steps, at a random moment of the next ones.
        for (std::uint32_t steps = random() % 6 + 1; steps > 0; --steps) seen_->wait("result");
        for (std::uint32_t asks = random() % 8; asks > 0; --asks) ask<health_report>(health_atom::value);
        const bool stop = i % 10 == 3;  // a frozen process is found by its counters: two seconds each
        ASSERT_EQ(::kill(current.pid, stop ? SIGSTOP : i % 2 == 0 ? SIGKILL : SIGABRT), 0);
        const auto down = seen_->wait("down");
        EXPECT_EQ(down.epoch, current.epoch);
        EXPECT_EQ(down.reason, stop ? "hang" : i % 2 == 0 ? "killed" : "abort");
        EXPECT_TRUE(gone(current.pid)) << "down means really gone";
        EXPECT_GE(down.plan_started, 1u);
        const auto next = up();
        EXPECT_EQ(next.epoch, current.epoch + 1);
        EXPECT_NE(next.pid, current.pid);
        current = next;
    }
    std::uint64_t epoch = 0;
    bool is_up = false;
    for (const auto& s : seen_->all()) {
        if (s.what == "result") continue;
        EXPECT_EQ(is_up, s.what == "down");
        EXPECT_EQ(s.epoch, s.what == "up" ? epoch + 1 : epoch);
        is_up = s.what == "up";
        epoch = s.epoch;
    }
    const auto counters = ask<supervisor_counters>(counters_atom::value);
    EXPECT_EQ(counters.recovery_seconds.size(), 20u);
    EXPECT_EQ(counters.restarts.at("hang"), 2u);
    EXPECT_EQ(counters.executor_pid, current.pid);
    EXPECT_EQ(ask<health_report>(health_atom::value).status, "degraded")
        << "two hangs in a minute cost a step of the ladder";
}

TEST_F(process_test, every_fault_that_ends_a_process_is_told_apart) {
    start();
    auto current = up();
    for (const std::string kind : {"crash", "abort", "exit", "device_lost", "hang"}) {
        EXPECT_TRUE(ask<bool>(fault_spec{.kind = kind, .after_steps = 3}));
        const auto down = seen_->wait("down");
        EXPECT_EQ(down.reason, kind);
        EXPECT_EQ(down.epoch, current.epoch);
        current = up();
    }
    EXPECT_EQ(ask<health_report>(health_atom::value).status, "degraded") << "the device was lost a moment ago";
    EXPECT_TRUE(ask<bool>(restart_atom::value));
    EXPECT_EQ(seen_->wait("down").reason, "operator");
    EXPECT_EQ(up().epoch, current.epoch + 1);
}

TEST_F(process_test, a_fault_fires_as_often_as_asked_over_all_incarnations) {
    start();
    up();
    EXPECT_TRUE(ask<bool>(fault_spec{.kind = "crash", .after_steps = 2, .times = 3}));
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(seen_->wait("down").reason, "crash");
        up();
    }
    for (int i = 0; i < 10; ++i) seen_->wait("result");
    const auto restarts = ask<supervisor_counters>(counters_atom::value).restarts;
    EXPECT_EQ(restarts, (std::map<std::string, std::uint64_t>{{"crash", 3}}));
    EXPECT_EQ(ask<health_report>(health_atom::value).status, "ok");
}

TEST_F(process_test, a_frozen_idle_process_is_not_called_healthy) {
    start();
    const auto current = up();
    while (seen_->wait("result").plan_started < 398) {
    }
    EXPECT_EQ(ask<health_report>(health_atom::value).status, "ok");
    ASSERT_EQ(::kill(current.pid, SIGSTOP), 0);
    auto frozen = ask<health_report>(health_atom::value);
    while (frozen.status == "ok")
        frozen = ask<health_report>(health_atom::value);  // until the cached answer is too old
    EXPECT_EQ(frozen.status, "recovering");
    EXPECT_FALSE(frozen.healthy());
    EXPECT_EQ(seen_->wait("down").reason, "hang");
    up();
    EXPECT_TRUE(ask<health_report>(health_atom::value).healthy());
}

TEST_F(process_test, tells_why_the_model_cannot_be_served) {
    start("missing");
    const auto first = first_.get_future().get();
    ASSERT_FALSE(first);
    EXPECT_EQ(first.error().code, errc::model_missing);
    EXPECT_EQ(first.error().message, "there is no such model");
    EXPECT_EQ(ask<health_report>(health_atom::value).status, "down");
}

/// Starts a front of its own in a child process, whose executor's pid comes through a pipe.
TEST(executor_process, dies_with_its_front) {
    int pipe_fds[2];
    ASSERT_EQ(pipe(pipe_fds), 0);
    const std::string program = fake_executor();
    const pid_t front = fork();
    if (front == 0) {
        close(pipe_fds[0]);
        system_config config({.threads = 1});
        caf::actor_system system(config);
        auto seen = std::make_shared<recorder>();
        const executor_arguments a{.model = "fake", .log_level = "off"};
        auto supervisor = spawn_supervisor(system, {.executor = a}, make_process_host(system, a, {}, program, {}),
            system.spawn(fake_scheduler, seen), {});
        const std::int32_t pid = seen->wait("up").pid;
        if (write(pipe_fds[1], &pid, sizeof pid) != sizeof pid) _exit(1);
        for (;;) pause();
    }
    close(pipe_fds[1]);
    std::int32_t executor = 0;
    ASSERT_EQ(read(pipe_fds[0], &executor, sizeof executor), static_cast<ssize_t>(sizeof executor));
    EXPECT_EQ(::kill(executor, 0), 0);
    const int watched = static_cast<int>(syscall(SYS_pidfd_open, executor, 0));
    ASSERT_GE(watched, 0);
    ASSERT_EQ(::kill(front, SIGKILL), 0);
    ASSERT_EQ(waitpid(front, nullptr, 0), front);
    pollfd death{.fd = watched, .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&death, 1, 5000), 1) << "the executor outlives its front";
    close(watched);
    close(pipe_fds[0]);
}

}  // namespace
}  // namespace troupe::actors
