#include "actors/executor/worker.hpp"

#include <algorithm>

#include "actors/executor/kv_disk_tier.hpp"
#include "actors/executor/plan_runner.hpp"
#include "actors/messages.hpp"

namespace troupe::actors {

worker::worker(backend_loader load, progress_page& page, worker_callbacks callbacks)
    : page_(page), callbacks_(std::move(callbacks)), faults_([this](std::string_view kind) {
          mark(page_.fired_ns);
          callbacks_.fired(kind);
      }),
      thread_([this, load = std::move(load)] { run(load); }) {}

worker::~worker() { stop(); }

void worker::stop() {
    {
        std::lock_guard lock(mutex_);
        stop_ = true;
    }
    wake_.notify_one();
    std::lock_guard lock(join_);
    if (thread_.joinable()) thread_.join();
}

void worker::submit(plan p) {
    {
        std::lock_guard lock(mutex_);
        for (const auto& o : p.opens) cancelled_[o.id] = false;
        plans_.push_back(std::move(p));
        page_.busy.fetch_add(1, std::memory_order_acq_rel);
    }
    wake_.notify_one();
}

void worker::cancel(std::span<const sequence_id> ids) {
    std::lock_guard lock(mutex_);
    // One that is not there is closed already: the plan that opens a sequence comes before its cancel.
    for (const sequence_id id : ids)
        if (const auto it = cancelled_.find(id); it != cancelled_.end()) it->second = true;
}

bool worker::cancelled(sequence_id id) {
    std::lock_guard lock(mutex_);
    const auto it = cancelled_.find(id);
    return it != cancelled_.end() && it->second;
}

/// Drops the flags of what a plan closes, unless this plan or one that waits opens it anew.
void worker::forget(const plan& p) {
    if (p.closes.empty()) return;
    const auto opens = [](const plan& q, sequence_id id) {
        return std::any_of(q.opens.begin(), q.opens.end(), [&](const sequence_open& o) { return o.id == id; });
    };
    std::lock_guard lock(mutex_);
    for (const sequence_id id : p.closes)
        if (!opens(p, id) && std::none_of(plans_.begin(), plans_.end(), [&](const plan& q) { return opens(q, id); }))
            cancelled_.erase(id);
}

void worker::run(const backend_loader& load) {
    mark(page_.loading_ns);
    auto loaded = load([this](double share) {
        page_.load_permille.store(
            static_cast<std::uint32_t>(std::clamp(share, 0.0, 1.0) * 1000), std::memory_order_relaxed);
    });
    if (!loaded) return callbacks_.loaded(std::move(loaded).error());
    executor_info info = (*loaded)->info();
    const auto tier = open_tier(**loaded, info);
    plan_runner runner(
        **loaded, page_, faults_, [this](sequence_id id) { return cancelled(id); },
        [&](const kv_job& job) { tier->start(job); });
    if (auto warm = runner.warm_up(); !warm) return callbacks_.loaded(warm.error());
    page_.load_permille.store(1000, std::memory_order_relaxed);
    mark(page_.loaded_ns);
    callbacks_.loaded(std::move(info));
    serve(runner);
}

/// Even without a folder: it then refuses every job.
std::unique_ptr<kv_disk_tier> worker::open_tier(backend& b, executor_info& info) {
    auto folder = open_kv_folder(b.disk(), info, b.layout());
    info.kv_disk = folder.room;
    info.images = std::move(folder.images);
    info.images_refused = folder.refused;
    return std::make_unique<kv_disk_tier>(b, std::move(folder.path), callbacks_.job_done);
}

void worker::serve(plan_runner& runner) {
    for (;;) {
        plan p;
        {
            std::unique_lock lock(mutex_);
            wake_.wait(lock, [this] { return stop_ || !plans_.empty(); });
            if (stop_) return;
            p = std::move(plans_.front());
            plans_.pop_front();
        }
        plan_result r = runner.run(p);
        if (page_.first_row_ns.load(std::memory_order_relaxed) == 0 &&
            std::any_of(r.rows.begin(), r.rows.end(), [](const row_result& row) { return row.sampled; }))
            mark(page_.first_row_ns);
        forget(p);
        page_.busy.fetch_sub(1, std::memory_order_acq_rel);
        callbacks_.done(std::move(r));
    }
}

}  // namespace troupe::actors
