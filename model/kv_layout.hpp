// How KV memory is cut up: segments of one reserved address range, each carved into equal blocks of one layer group.
// Pure arithmetic shared by the scheduler (which owns block ids) and the executor (which owns the bytes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/types.hpp"

namespace troupe::model {

/// Names a block of one group: segment * blocks_per_segment(group) + slot.
using block_id = std::uint32_t;
inline constexpr block_id no_block = 0xffff'ffff;  ///< table entry of a block behind the window

inline constexpr int block_tokens = 16;

/// Layers whose blocks live and die together: all full-attention layers, all layers with the same window, or all layers
/// with latent attention.
struct layer_group {
    std::int32_t window = 0;  ///< 0: full attention; else tokens seen, the own one included
    std::int32_t n_layers = 0;
    std::uint64_t block_bytes = 0;  ///< of 16 tokens in all layers of the group
    std::uint32_t blocks_per_segment = 0;
    std::int32_t latent = 0;  ///< 0: keys and values; else values of the one latent a token keeps in a layer
    bool operator==(const layer_group&) const = default;
};

struct kv_layout {
    kernels::dtype type = kernels::dtype::f16;
    std::uint64_t segment_bytes = 8u << 20;  ///< a multiple of 2 MiB
    std::vector<layer_group> groups;

    std::uint64_t segment_of(std::size_t group, block_id b) const { return b / groups[group].blocks_per_segment; }
    /// Offset of a block from the start of the reserved range.
    std::uint64_t offset(std::size_t group, block_id b) const {
        const auto& g = groups[group];
        return segment_of(group, b) * segment_bytes + (b % g.blocks_per_segment) * g.block_bytes;
    }
    bool operator==(const kv_layout&) const = default;
};

}  // namespace troupe::model
