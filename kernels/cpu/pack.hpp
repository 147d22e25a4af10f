// The packed weight layout: `lanes` rows side by side, so that a float lane is an output row.
//
// A group is `lanes` consecutive rows (the last one padded with zero rows), stored as two regions, both read front to
// back:
//
//   scales  f32 f16 bf16   none
//           q4_0 q5_0 q8_0 iq4_nl   a block of 32: f16 d[lanes]
//           mxfp4          a block of 32: f32 d[lanes] (its exponents leave the range of f16)
//           q4_1 q5_1      a block of 32: f16 d[lanes], f16 m[lanes]
//           q4_k q5_k      a block of 256: f16 d[lanes], f16 dmin[lanes], then 8 times u8 scale[lanes], u8 min[lanes]
//           q2_k           a block of 256: f16 d[lanes], f16 dmin[lanes], then 8 times u8 scale[2][lanes], u8
//           min[2][lanes]
//                          (of each 16 values)
//           q3_k q6_k      a block of 256: f16 d[lanes], then 8 times i8 scale[2][lanes] (of each 16 values)
//           iq4_xs         a block of 256: f16 d[lanes], then 8 times i8 scale[lanes]
//           awq_*          a block of 32, 64 or 128: f16 d[lanes], u8 zero[lanes]
//   values  f32 f16 bf16   for each column: value[lanes]
//           q8_0           a block of 32: 8 quads; a quad is 4 consecutive columns of each row, byte 4 * row + column
//           others         a block of 32: 4 vectors of low nibbles, vector p = quad 2p | quad 2p + 1 << 4;
//           q5_*           then a vector of fifth bits: bit q of a byte belongs to quad q;
//           q6_k           then 2 vectors of the upper two bits: bits 2i, 2i + 1 of vector j belong to quad 4j + i
//
// Levels are unsigned as in the file; q3_k has 4 added (0..7), q6_k 32 (0..63), q8_0 128 where the kernel set asks for
// it. q2_k and q3_k use a nibble a level, so in memory they take 5.1 and 4.6 bits a value; iq4_* and mxfp4 keep their
// level names.
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
