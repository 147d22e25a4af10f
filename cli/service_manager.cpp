#include "cli/service_manager.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <future>
#include <optional>

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/log.hpp"

namespace troupe::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto while_loading = 2s;           // STATUS moves, and the time limit of the start is put off
constexpr auto try_again = 1s;               // a ping that was left out must not be the one that was needed
constexpr auto longest_round_trip = 2500ms;  // the supervisor bounds its own by one second

class listener final : public client_port {
 public:
    explicit listener(service_manager& m) : manager_(m) {}
    void deliver(event_ptr, std::string_view) override { manager_.look_again(); }

 private:
    service_manager& manager_;
};

std::string status_line(const health_report& h) {
    std::string text = h.status;
    if (h.status == "loading") text += fmt::format(" {:.0f} %", h.load_progress * 100);
    if (!h.reasons.empty()) text += fmt::format(": {}", fmt::join(h.reasons, "; "));
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
}

}  // namespace

client_ptr level_listener(service_manager& m) { return std::make_shared<listener>(m); }

service_manager::service_manager(service_environment e) : environment_(std::move(e)) {}
service_manager::~service_manager() { end_thread(); }

void service_manager::watch(engine_port& engine, std::function<bool(std::chrono::milliseconds)> answers) {
    if (environment_.socket.empty()) return;
    engine_ = &engine;
    answers_ = std::move(answers);
    engine.subscribe_health(level_listener(*this));
    thread_ = std::thread([this] { run(); });
}

void service_manager::ready() {
    const std::lock_guard lock(mutex_);
    ready_ = again_ = true;
    changed_.notify_all();
}

void service_manager::look_again() {
    const std::lock_guard lock(mutex_);
    again_ = true;
    changed_.notify_all();
}

void service_manager::stopping() {
    end_thread();
    say("STOPPING=1\nSTATUS=stopping");
}

void service_manager::end_thread() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
}

/// Half of the watchdog's time; without one only changes matter.
std::chrono::milliseconds service_manager::pause() const {
    if (!told_ready_) return while_loading;
    if (environment_.watchdog.count() == 0) return std::chrono::hours(24);
    return std::max(std::chrono::duration_cast<std::chrono::milliseconds>(environment_.watchdog / 2), 1ms);
}

void service_manager::run() {
    std::unique_lock lock(mutex_);
    auto due = std::chrono::steady_clock::now();
    while (!stopping_) {
        const bool on_time = !changed_.wait_until(lock, due, [this] { return stopping_ || again_; });
        if (stopping_) return;
        again_ = false;
        if (on_time || !told_ready_) due = std::chrono::steady_clock::now() + pause();
        if (!look(lock)) due = std::min(due, std::chrono::steady_clock::now() + try_again);
    }
}

/// False: something that should have been said could not be.
bool service_manager::look(std::unique_lock<std::mutex>& lock) {
    const bool ready = ready_;
    lock.unlock();
    const auto within =
        std::min<std::chrono::milliseconds>(longest_round_trip, std::max(pause(), std::chrono::milliseconds(100)));
    auto promise = std::make_shared<std::promise<std::optional<health_report>>>();
    auto reply = promise->get_future();
    engine_->health(
        [promise](result<health_report> h) { promise->set_value(h ? std::optional(std::move(*h)) : std::nullopt); });
    std::string text;
    std::optional<health_report> report;
    if (reply.wait_for(within) == std::future_status::ready) report = reply.get();
    std::string status = told_;
    bool well = false;
    if (report) {
        const auto& h = *report;
        well = h.round_trip && answers_(within);
        if (well) text = "WATCHDOG=1\n";
        if (status = status_line(h); status != told_) text += "STATUS=" + status + "\n";
        if (ready && !told_ready_) text += "READY=1\n";
        if (!ready && h.round_trip) text += fmt::format("EXTEND_TIMEOUT_USEC={}\n", 15'000'000);
    }
    const bool said = text.empty() || say(text);
    lock.lock();
    if (!said) return false;
    told_ = std::move(status);
    if (text.find("READY=1") != std::string::npos) told_ready_ = true;
    return well || environment_.watchdog.count() == 0;
}

/// False: the service manager's socket did not take it.
bool service_manager::say(const std::string& text) const {
    sockaddr_un to{};
    const auto& path = environment_.socket;
    if (path.empty() || path.size() >= sizeof to.sun_path) return true;
    to.sun_family = AF_UNIX;
    std::memcpy(to.sun_path, path.data(), path.size());
    if (path.front() == '@') to.sun_path[0] = '\0';  // a name that is no file
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    const bool sent =
        ::sendto(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&to),
            size) >= 0;
    if (!sent) log::warn("service_manager_not_told reason=\"{}\"", std::strerror(errno));
    ::close(fd);
    return sent;
}

}  // namespace troupe::cli
