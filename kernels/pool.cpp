// Thread pool: hand-out by an atomic counter, helpers that join a job only if they come in time, futex sleep between
// steps.
//
// One 64-bit word `state` = {generation: 32, open: 1, active: 31} carries a job's life:
//   open    the caller fills the job's plain fields while no helper is active and the word is closed, then stores
//           {generation + 1, open, 0} with release.
//   join    a helper that reads an open word of a generation it has not served adds one to `active` by compare-exchange
//           (acquire): it succeeds only on the value stored by `open` or by other helpers' read-modify-writes after it,
//           which continue its release sequence, so the fields are visible.
//   leave   fetch_sub with release, after the helper's last task.
//   close   the caller, out of tasks, clears `open` (no one can join any more) and waits for active = 0 with acquire:
//   it
//           reads a value in the release sequence of every leave, so all task effects are visible and the fields may be
//           rewritten. A helper that was descheduled and never joined is not waited for.
// `next` is relaxed: it only hands out numbers; job data is ordered by `state`.
//
// Sleep: a helper reads `wake` (acquire), then looks for a reason to stay up (step, open job, stop), then waits for
// `wake` to differ. The caller writes the reason first and increments `wake` (release) after it. If the helper read the
// incremented value it sees the reason; if it read the old one the wait returns. No wake-up is lost.
#include "kernels/pool.hpp"

#include <sched.h>

#include <atomic>
#include <thread>
#include <vector>

#include "core/check.hpp"

namespace troupe::kernels {
namespace {

constexpr std::uint64_t open_bit = 1ull << 31;
constexpr std::uint64_t active_mask = open_bit - 1;

std::uint32_t generation_of(std::uint64_t state) { return static_cast<std::uint32_t>(state >> 32); }

/// Pauses, and gives the processor away once a wait has become long (about 20 us): others may need it to finish.
class spinner {
 public:
    void wait() {
        if (++turns_ < 600)
            __builtin_ia32_pause();
        else
            sched_yield();
    }

 private:
    int turns_ = 0;
};

}  // namespace

struct pool::impl {
    // Job fields: written by the caller while closed, read by helpers that joined.
    erased task = nullptr;
    void* self = nullptr;
    std::int64_t n_tasks = 0;

    alignas(64) std::atomic<std::uint64_t> state{0};
    alignas(64) std::atomic<std::int64_t> next{0};
    alignas(64) std::atomic<std::uint32_t> wake{0};
    std::atomic<bool> in_step{false};
    std::atomic<bool> stop{false};

    int depth = 0;  // of nested steps; the caller's thread only
    std::vector<std::thread> helpers;

    void wake_all() {
        wake.fetch_add(1, std::memory_order_release);
        wake.notify_all();
    }

    void work(int thread) {
        for (;;) {
            const std::int64_t i = next.fetch_add(1, std::memory_order_relaxed);
            if (i >= n_tasks) return;
            task(self, i, thread);
        }
    }

    /// Serves the open job if there is one of another generation than `served`; false if there is none.
    bool try_serve(std::uint32_t& served, int thread) {
        std::uint64_t seen = state.load(std::memory_order_relaxed);
        while ((seen & open_bit) != 0 && generation_of(seen) != served) {
            if (!state.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire, std::memory_order_relaxed))
                continue;
            served = generation_of(seen);
            work(thread);
            state.fetch_sub(1, std::memory_order_release);
            return true;
        }
        return false;
    }

    void helper(int thread) {
        std::uint32_t served = 0;
        spinner spin;
        while (!stop.load(std::memory_order_relaxed)) {
            if (try_serve(served, thread)) {
                spin = {};
                continue;
            }
            if (in_step.load(std::memory_order_relaxed)) {
                spin.wait();
                continue;
            }
            const std::uint32_t epoch = wake.load(std::memory_order_acquire);
            const std::uint64_t seen = state.load(std::memory_order_relaxed);
            const bool job = (seen & open_bit) != 0 && generation_of(seen) != served;
            if (job || in_step.load(std::memory_order_relaxed) || stop.load(std::memory_order_relaxed)) continue;
            wake.wait(epoch, std::memory_order_relaxed);
            spin = {};
        }
    }
};

pool::pool(int n_threads) : impl_(std::make_unique<impl>()) {
    CHECK(n_threads >= 1);
    impl_->helpers.reserve(static_cast<std::size_t>(n_threads - 1));
    for (int t = 1; t < n_threads; ++t) impl_->helpers.emplace_back([p = impl_.get(), t] { p->helper(t); });
}

pool::~pool() {
    impl_->stop.store(true, std::memory_order_relaxed);
    impl_->wake_all();
    for (std::thread& t : impl_->helpers) t.join();
}

int pool::size() const { return static_cast<int>(impl_->helpers.size()) + 1; }

void pool::begin_step() {
    if (impl_->depth++ > 0 || impl_->helpers.empty()) return;
    impl_->in_step.store(true, std::memory_order_relaxed);
    impl_->wake_all();
}

void pool::end_step() {
    CHECK(impl_->depth > 0, "end_step without begin_step");
    if (--impl_->depth > 0) return;
    impl_->in_step.store(false, std::memory_order_relaxed);
}

void pool::run_erased(std::int64_t n_tasks, erased task, void* self) {
    impl& p = *impl_;
    if (p.helpers.empty() || n_tasks <= 1) {
        for (std::int64_t i = 0; i < n_tasks; ++i) task(self, i, 0);
        return;
    }
    p.task = task;
    p.self = self;
    p.n_tasks = n_tasks;
    p.next.store(0, std::memory_order_relaxed);
    const std::uint64_t generation = generation_of(p.state.load(std::memory_order_relaxed)) + 1ull;
    p.state.store(generation << 32 | open_bit, std::memory_order_release);
    if (p.depth == 0) p.wake_all();
    p.work(0);
    p.state.fetch_and(~open_bit, std::memory_order_relaxed);
    spinner spin;
    while ((p.state.load(std::memory_order_acquire) & active_mask) != 0) spin.wait();
}

}  // namespace troupe::kernels
