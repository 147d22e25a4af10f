// Thread pool of the executor's worker: helpers spin inside a step and block between steps, so that idle costs nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace troupe::kernels {

class pool {
 public:
    /// `n_threads` >= 1 counts the calling thread; n_threads - 1 helpers are started.
    explicit pool(int n_threads);
    ~pool();
    pool(const pool&) = delete;
    pool& operator=(const pool&) = delete;

    int size() const;

    /// Between begin_step and end_step helpers wait for work by spinning (with a yield when the machine is
    /// oversubscribed).
    void begin_step();
    void end_step();

    /// Runs task(i, thread) for i in [0, n_tasks), thread in [0, size()), and returns when all are done. Tasks are
    /// handed out one by one, so which thread runs a task is not fixed: a task's result may depend on i only.
    /// May be called outside a step too (load-time work). Tasks must not throw and must not call run.
    template <class F> void run(std::int64_t n_tasks, F&& task) {
        using fn = std::remove_reference_t<F>;
        run_erased(
            n_tasks, [](void* self, std::int64_t i, int thread) { (*static_cast<fn*>(self))(i, thread); }, &task);
    }

 private:
    using erased = void (*)(void* self, std::int64_t i, int thread);
    void run_erased(std::int64_t n_tasks, erased task, void* self);

    struct impl;
    std::unique_ptr<impl> impl_;
};

}  // namespace troupe::kernels
