// The disk tier inside the executor: a thread that writes KV blocks to image files and reads them back, beside the
// steps. What to keep, read and drop is the scheduler's to say.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "actors/executor/backend.hpp"
#include "actors/plan.hpp"
#include "model/kv_image.hpp"

namespace troupe::actors {

/// What lies on the disk for this model and these numerics.
struct kv_folder {
    std::filesystem::path path;  ///< empty: there is no disk tier
    std::uint64_t room = 0;      ///< bytes of images that may be kept
    std::vector<kv_image_info> images;
    std::uint64_t refused = 0;  ///< damaged or foreign files, removed
};
/// Makes <disk.folder>/<model>/<numerics> and looks its images through. Images of other models go, oldest first, where
/// all together are more than disk.bytes. A folder that cannot be made means no disk tier, and a line in the log.
kv_folder open_kv_folder(const kv_disk& disk, const executor_info& info, const model::kv_layout& layout);

class kv_disk_tier {
 public:
    /// `done` is called on the tier's thread.
    kv_disk_tier(backend& b, std::filesystem::path folder, std::function<void(kv_job_result)> done);
    /// Waits for the job that runs; those that wait are forgotten.
    ~kv_disk_tier();
    kv_disk_tier(const kv_disk_tier&) = delete;
    kv_disk_tier& operator=(const kv_disk_tier&) = delete;

    void start(kv_job job);

 private:
    void run();
    kv_job_result work(const kv_job& job);
    result<std::uint64_t> save(const kv_job& job);
    result<std::uint64_t> load(const kv_part& part, const std::vector<token_id>& tokens);

    backend& backend_;
    std::filesystem::path folder_;
    model::kv_identity identity_;
    std::function<void(kv_job_result)> done_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<kv_job> jobs_;
    bool stop_ = false;
    std::thread thread_;
};

}  // namespace troupe::actors
