// The executor's worker: one plain thread that loads the backend and then runs plans in the order they came. What may
// block or never return happens here and nowhere else.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>
#include <unordered_map>

#include "actors/executor/backend.hpp"
#include "actors/executor/faults.hpp"
#include "actors/executor/progress_page.hpp"
#include "actors/plan.hpp"
#include "core/result.hpp"

namespace troupe::actors {

class kv_disk_tier;
class plan_runner;

/// Called on the worker thread.
struct worker_callbacks {
    std::function<void(result<executor_info>)> loaded;  ///< once; after an error nothing else happens
    std::function<void(plan_result)> done;
    std::function<void(kv_job_result)> job_done;       ///< on a thread of its own
    std::function<void(std::string_view kind)> fired;  ///< an armed fault is about to fire
};

class worker {
 public:
    /// Starts the thread. `page` outlives the worker.
    worker(backend_loader load, progress_page& page, worker_callbacks callbacks);
    ~worker();
    worker(const worker&) = delete;
    worker& operator=(const worker&) = delete;

    // Any thread; none waits for the worker.
    void submit(plan p);
    /// No plan started later, and no later pass of the running one, computes a row of these.
    void cancel(std::span<const sequence_id> ids);
    bool arm(const executor_fault& f) { return faults_.arm(f); }
    /// Ends after the plan that runs, and waits for it. The others do nothing from then on.
    void stop();
    executor_status status(std::uint64_t epoch) const { return read_status(page_, epoch); }

 private:
    void run(const backend_loader& load);
    void serve(plan_runner& runner);
    std::unique_ptr<kv_disk_tier> open_tier(backend& b, executor_info& info);
    bool cancelled(sequence_id id);
    void forget(const plan& p);

    progress_page& page_;
    worker_callbacks callbacks_;
    fault_injector faults_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<plan> plans_;
    std::unordered_map<sequence_id, bool> cancelled_;  ///< every sequence that is open or in a plan to come
    bool stop_ = false;
    std::mutex join_;
    std::thread thread_;
};

}  // namespace troupe::actors
