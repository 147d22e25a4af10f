// The packed weight layout: `lanes` rows side by side, so that a float lane is an output row.
//
// A group is `lanes` consecutive rows (the last one padded with zero rows), stored as two regions, both read front to
// back:
//
//   scales  f32 f16 bf16   none
//           q4_0 q5_0 q8_0 a block of 32: f16 d[lanes]
//           q4_1           a block of 32: f16 d[lanes], f16 m[lanes]
//           q4_k q5_k      a block of 256: f16 d[lanes], f16 dmin[lanes], then 8 times u8 scale[lanes], u8 min[lanes]
//           q6_k           a block of 256: f16 d[lanes], then 8 times i8 scale[2][lanes] (of each 16 values)
//   values  f32 f16 bf16   for each column: value[lanes]
//           q8_0           a block of 32: 8 quads; a quad is 4 consecutive columns of each row, byte 4 * row + column
//           4 to 6 bits    a block of 32: 4 vectors of low nibbles, vector p = quad 2p | quad 2p + 1 << 4;
//           q5_*           then a vector of fifth bits: bit q of a byte belongs to quad q;
//           q6_k           then 2 vectors of the upper two bits: bits 2i, 2i + 1 of vector j belong to quad 4j + i
//
// 4-bit levels are unsigned as in the file; q6_k has 32 added (0..63), q8_0 128 where the kernel set asks for it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/pool.hpp"
#include "kernels/types.hpp"

namespace troupe::kernels {

struct packed_group {
    std::int64_t scale_bytes;  ///< rounded up to 64: the values start there
    std::int64_t bytes;        ///< of the whole group, a multiple of 64
};
packed_group packed_group_layout(dtype type, std::int64_t cols, int lanes);

std::size_t packed_weight_bytes(dtype type, std::int64_t rows, std::int64_t cols, int lanes);

/// File layout -> packed layout, one task a group. dst is 64-byte aligned.
void pack_weight(pool& threads, dtype type, std::int64_t rows, std::int64_t cols, int lanes, bool offset_q8,
    const std::byte* src, std::byte* dst);

}  // namespace troupe::kernels
