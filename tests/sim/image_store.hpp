// The disk tier below the fake executors: images of tokens instead of numbers. It outlives every process.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "actors/plan.hpp"

namespace troupe::actors::sim {

struct slot {
    std::int32_t pos = -1;
    token_id token = -1;
};
using block = std::vector<slot>;

struct fake_image {
    std::vector<token_id> tokens;
    kv_image_info info;
    std::map<std::pair<std::uint32_t, std::uint32_t>, block> blocks;  ///< by (index, group)
    bool damaged = false;
};

struct image_store {
    std::uint64_t room = 0;  ///< bytes
    std::map<std::string, fake_image> images;
    std::vector<kv_image_info> list() const {
        std::vector<kv_image_info> infos;
        for (const auto& [file, image] : images) infos.push_back(image.info);
        return infos;
    }
};

}  // namespace troupe::actors::sim
