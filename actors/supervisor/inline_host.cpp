// The executor inside this process (--executor=inline), for tests and debugging: same actor, same worker, no restart.
#include <mutex>
#include <thread>

#include "actors/executor/executor_actor.hpp"
#include "actors/executor/model_backend.hpp"
#include "actors/supervisor/supervisor.hpp"
#include "core/check.hpp"

namespace troupe::actors {
namespace {

class inline_host final : public child_host {
 public:
    inline_host(caf::actor_system& system, backend_loader load) : system_(system), load_(std::move(load)) {}
    ~inline_host() override {
        {
            std::lock_guard lock(sink_mutex_);
            sink_ = nullptr;
        }
        end();
        if (reaper_.joinable()) reaper_.join();
    }

    void set_sink(std::function<void(child_event)> sink) override {
        std::lock_guard lock(sink_mutex_);
        sink_ = std::move(sink);
    }
    void launch(std::uint64_t epoch, std::string cookie) override {
        CHECK(!work_, "an inline executor starts once");
        std::lock_guard lock(mutex_);  // loaded() waits until work_ is there
        results_ = std::make_shared<result_sink>();
        work_ = std::make_shared<worker>(load_, page_,
            worker_callbacks{.loaded = [=, this](result<executor_info> i) { loaded(epoch, cookie, std::move(i)); },
                .done = [results = results_](plan_result r) { results->send(std::move(r)); },
                .job_done =
                    [results = results_, epoch](kv_job_result r) {
                        r.epoch = epoch;
                        results->send(std::move(r));
                    },
                .fired =
                    [=, this](std::string_view kind) {
                        emit({.epoch = epoch, .kind = child_event_kind::fired, .fault = std::string(kind)});
                    }});
    }
    void stop(std::uint64_t epoch) override {
        if (stopped_) return;
        stopped_ = true;
        // The worker's end waits for its plan; an actor must not.
        reaper_ = std::thread([=, this] {
            end();
            emit({.epoch = epoch, .kind = child_event_kind::gone});
        });
    }
    void kill(std::uint64_t epoch) override { stop(epoch); }
    const progress_page* page() const override { return &page_; }
    bool can_restart() const override { return false; }

 private:
    void emit(child_event e) {
        std::lock_guard lock(sink_mutex_);
        if (sink_) sink_(std::move(e));
    }
    void loaded(std::uint64_t epoch, const std::string& cookie, result<executor_info> i) {
        if (!i) return emit({.epoch = epoch, .kind = child_event_kind::failed, .err = i.error()});
        std::lock_guard lock(mutex_);
        i->epoch = epoch;
        emit({.epoch = epoch,
            .kind = child_event_kind::door,
            .door = spawn_door(system_, {work_, results_, *i}, cookie, [] {})});
    }
    /// Actors may hold the worker a little longer; its thread is what must end.
    void end() {
        std::shared_ptr<worker> work;
        {
            std::lock_guard lock(mutex_);
            work = work_;
        }
        if (work) work->stop();
    }

    caf::actor_system& system_;
    backend_loader load_;
    progress_page page_;
    std::mutex mutex_, sink_mutex_;
    std::function<void(child_event)> sink_;
    std::shared_ptr<result_sink> results_;
    std::shared_ptr<worker> work_;
    bool stopped_ = false;  ///< touched by the supervisor only
    std::thread reaper_;
};

}  // namespace

std::unique_ptr<child_host> make_inline_host(caf::actor_system& system, executor_arguments arguments) {
    return make_inline_host(system, load_model(std::move(arguments)));
}

std::unique_ptr<child_host> make_inline_host(caf::actor_system& system, backend_loader load) {
    return std::make_unique<inline_host>(system, std::move(load));
}

}  // namespace troupe::actors
