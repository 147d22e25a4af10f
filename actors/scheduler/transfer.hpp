// One token prefix on its way to the disk or back.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/plan.hpp"
#include "actors/scheduler/disk_index.hpp"
#include "actors/scheduler/kv_manager.hpp"
#include "core/clock.hpp"

namespace troupe::actors {

struct transfer {
    bool load = false;
    bool sent = false;  ///< else its blocks are still being found
    sequence_kv kv;     ///< what it holds
    kv_job job;
    steady_time since{};
    // save
    prefix_cache::node* leaf = nullptr;
    kv_image_info image;
    // load
    std::vector<token_id> tokens;
    std::uint32_t from = 0;  ///< blocks the cache had
    disk_index::match found;
};

}  // namespace troupe::actors
