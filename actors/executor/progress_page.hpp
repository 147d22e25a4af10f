// Counters of an executor in one page of memory shared with the front: they survive the executor's death, and reading
// them asks nothing of a process that may be stuck. Written by the executor only.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "actors/plan.hpp"
#include "core/result.hpp"

namespace troupe::actors {

struct progress_page {
    std::atomic<std::uint64_t> progress{0};      ///< layers done since start
    std::atomic<std::uint64_t> plan_started{0};  ///< stored before anything of that plan runs
    std::atomic<std::uint64_t> plans_done{0};
    std::atomic<std::uint64_t> steps_done{0};  ///< plans with rows that were computed to the end
    std::atomic<std::uint64_t> tick_ns{
        0};  ///< expected time of one tick of `progress` in the plan that runs; 0: unknown
    std::atomic<std::uint64_t> kv_bytes{0};  ///< committed for KV memory
    std::atomic<std::uint32_t> load_permille{0};
    std::atomic<std::uint32_t> busy{0};  ///< plans queued or running
    // Moments of its life, ns of the steady clock (the same in both processes); 0: has not come.
    std::atomic<std::int64_t> loading_ns{0};    ///< the worker begins to load
    std::atomic<std::int64_t> loaded_ns{0};     ///< it can run plans
    std::atomic<std::int64_t> first_row_ns{0};  ///< the first plan that sampled anything is done
    std::atomic<std::int64_t> fired_ns{0};      ///< the newest injected fault was about to happen
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free,
    "two processes share these");

/// Stores the present moment.
void mark(std::atomic<std::int64_t>& moment);

executor_status read_status(const progress_page& page, std::uint64_t epoch);

/// A page of its own memory file, so that a child can map it too.
class shared_page {
 public:
    /// In the front. errc::out_of_memory if the system refuses.
    static result<std::unique_ptr<shared_page>> create();
    /// In the child. errc::usage if `fd` is no such file.
    static result<std::unique_ptr<shared_page>> open(int fd);
    ~shared_page();
    shared_page(const shared_page&) = delete;
    shared_page& operator=(const shared_page&) = delete;

    int fd() const { return fd_; }
    progress_page& page() const { return *page_; }

 private:
    shared_page(int fd, progress_page* page) : fd_(fd), page_(page) {}
    static result<std::unique_ptr<shared_page>> map(int fd);
    int fd_;
    progress_page* page_;
};

}  // namespace troupe::actors
