#include "actors/plan.hpp"

#include <bit>
#include <cstring>

#include "core/check.hpp"

namespace troupe::actors {

static_assert(std::endian::native == std::endian::little, "ids travel in the machine's order");

std::string pack_ids(const std::vector<token_id>& ids) {
    std::string bytes(ids.size() * sizeof(token_id), '\0');
    if (!ids.empty()) std::memcpy(bytes.data(), ids.data(), bytes.size());
    return bytes;
}

std::vector<token_id> unpack_ids(const std::string& bytes) {
    CHECK(bytes.size() % sizeof(token_id) == 0);
    std::vector<token_id> ids(bytes.size() / sizeof(token_id));
    if (!ids.empty()) std::memcpy(ids.data(), bytes.data(), bytes.size());
    return ids;
}

model::kv_layout layout_of(const executor_info& info) {
    const std::size_t n = info.group_window.size();
    CHECK(info.group_layers.size() == n && info.group_block_bytes.size() == n && info.group_latent.size() == n);
    model::kv_layout layout;
    layout.type = static_cast<kernels::dtype>(info.kv_type);
    layout.segment_bytes = info.segment_bytes;
    for (std::size_t g = 0; g < n; ++g) {
        const auto bytes = info.group_block_bytes[g];
        CHECK(bytes > 0 && bytes <= info.segment_bytes);
        layout.groups.push_back({info.group_window[g], info.group_layers[g], bytes,
            static_cast<std::uint32_t>(info.segment_bytes / bytes), info.group_latent[g]});
    }
    return layout;
}

}  // namespace troupe::actors
