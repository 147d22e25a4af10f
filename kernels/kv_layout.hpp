// Where a key or value of one token lies inside a layer's part of a KV block (see kv_geometry in ops.hpp).
#pragma once

#include <cstddef>

#include "kernels/ops.hpp"

namespace troupe::kernels {

/// Bytes of one layer's K (as many again for V, unless keys have a latent), over all heads of a block.
std::size_t kv_half_bytes(const kv_geometry& g);
/// Bytes of one head's K in a block.
std::size_t kv_head_bytes(const kv_geometry& g);

/// Writes one token's k and v (as kv_store takes them) to slot `token` (0..15) of the layer at `layer`, rounded to the
/// KV type. One function for every table: what is stored must not depend on the table. A q8_0 block with a value that
/// is not finite gets the scale NaN, so that the fault stays visible.
void kv_write_token(const kv_geometry& g, std::byte* layer, int token, const float* k, const float* v);

/// Reads one token's k [head_dim] and v [value_dim] of one head back. Either pointer may be null.
void kv_read_token(const kv_geometry& g, const std::byte* layer, int kv_head, int token, float* k, float* v);

/// CHECKs that a kernel can work with this geometry.
void kv_check(const kv_geometry& g);

}  // namespace troupe::kernels
