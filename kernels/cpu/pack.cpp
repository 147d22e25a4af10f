// File layout to packed layout; the bit positions of the file formats are those of the GGUF specification.
#include "kernels/cpu/pack.hpp"

#include <cstring>

#include "core/check.hpp"

namespace troupe::kernels {
namespace {

using u8 = std::uint8_t;

constexpr int k_block = 256;   // values in a block of the K formats
constexpr int sub_block = 32;  // values that share an activation scale
constexpr int k_subs = k_block / sub_block;

bool is_k(dtype t) { return t == dtype::q4_k || t == dtype::q5_k || t == dtype::q6_k; }

std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

/// Bytes of scales for one row: per 32 values, or per 256 for the K formats.
int row_scale_bytes(dtype t) {
    switch (t) {
    case dtype::q4_0:
    case dtype::q5_0:
    case dtype::q8_0:
        return 2;
    case dtype::q4_1:
        return 4;
    case dtype::q4_k:
    case dtype::q5_k:
        return 4 + 2 * k_subs;
    case dtype::q6_k:
        return 2 + 2 * k_subs;
    default:
        return 0;
    }
}

/// Bytes of levels for one row and 32 values.
int row_level_bytes(dtype t) {
    switch (t) {
    case dtype::q4_0:
    case dtype::q4_1:
    case dtype::q4_k:
        return 16;
    case dtype::q5_0:
    case dtype::q5_k:
        return 20;
    case dtype::q6_k:
        return 24;
    case dtype::q8_0:
        return 32;
    default:
        return 0;
    }
}

/// Level of value i of a block of 32 stored as nibbles: the low ones first.
u8 split_nibble(const u8* qs, int i) { return i < 16 ? qs[i] & 15 : qs[i - 16] >> 4; }

/// The levels of 32 values, sub-block `sub` of the file block at `b`.
void read_levels(dtype t, const u8* b, int sub, bool offset_q8, u8 q[32]) {
    for (int i = 0; i < 32; ++i) {
        switch (t) {
        case dtype::q4_0:
            q[i] = split_nibble(b + 2, i);
            break;
        case dtype::q4_1:
            q[i] = split_nibble(b + 4, i);
            break;
        case dtype::q5_0:
            q[i] = split_nibble(b + 6, i) | ((b[2 + i / 8] >> (i % 8)) & 1) << 4;
            break;
        case dtype::q8_0:
            q[i] = offset_q8 ? b[2 + i] ^ 0x80 : b[2 + i];
            break;
        case dtype::q4_k:
            q[i] = (b[16 + sub / 2 * 32 + i] >> (sub % 2 * 4)) & 15;
            break;
        case dtype::q5_k:
            q[i] = ((b[48 + sub / 2 * 32 + i] >> (sub % 2 * 4)) & 15) | ((b[16 + i] >> sub) & 1) << 4;
            break;
        case dtype::q6_k: {
            const int half = sub / 4, quarter = sub % 4;
            const u8 low = b[half * 64 + quarter % 2 * 32 + i] >> (quarter / 2 * 4);
            const u8 high = b[128 + half * 32 + i] >> (quarter * 2);
            q[i] = (low & 15) | (high & 3) << 4;
            break;
        }
        default:
            CHECK(false, "a quantized type");
        }
    }
}

/// The 6-bit scale and minimum of sub-block j, from the 12 bytes of q4_k and q5_k.
void k_scale_min(const u8* s, int j, u8& scale, u8& min) {
    if (j < 4) {
        scale = s[j] & 63;
        min = s[j + 4] & 63;
    } else {
        scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        min = (s[j + 4] >> 4) | (s[j] >> 6) << 4;
    }
}

/// Scales of one row's file block `b` into the group's scale block `out`.
void write_scales(dtype t, const u8* b, int lanes, int lane, u8* out) {
    const int f16_row = 2 * lanes;
    switch (t) {
    case dtype::q4_0:
    case dtype::q5_0:
    case dtype::q8_0:
        std::memcpy(out + 2 * lane, b, 2);
        break;
    case dtype::q4_1:
        std::memcpy(out + 2 * lane, b, 2);
        std::memcpy(out + f16_row + 2 * lane, b + 2, 2);
        break;
    case dtype::q4_k:
    case dtype::q5_k:
        std::memcpy(out + 2 * lane, b, 2);
        std::memcpy(out + f16_row + 2 * lane, b + 2, 2);
        for (int j = 0; j < k_subs; ++j) {
            u8* p = out + 2 * f16_row + j * 2 * lanes + lane;
            k_scale_min(b + 4, j, p[0], p[lanes]);
        }
        break;
    case dtype::q6_k:
        std::memcpy(out + 2 * lane, b + 208, 2);
        for (int j = 0; j < k_subs; ++j) std::memcpy(out + f16_row + (j * lanes + lane) * 2, b + 192 + 2 * j, 2);
        break;
    default:
        CHECK(false, "a quantized type");
    }
}

/// Levels of 32 values of one row into the group's level block `out` (zeroed before).
void write_levels(dtype t, const u8 q[32], int lanes, int lane, u8* out) {
    const int vec = 4 * lanes;
    for (int i = 0; i < 32; ++i) {
        const int quad = i / 4, byte = 4 * lane + i % 4;
        if (t == dtype::q8_0) {
            out[quad * vec + byte] = q[i];
            continue;
        }
        out[quad / 2 * vec + byte] |= (q[i] & 15) << (quad % 2 * 4);
        u8* upper = out + 4 * vec;
        if (t == dtype::q6_k)
            upper[quad / 4 * vec + byte] |= (q[i] >> 4) << (quad % 4 * 2);
        else if (t == dtype::q5_0 || t == dtype::q5_k)
            upper[byte] |= (q[i] >> 4) << quad;
    }
}

void pack_quantized_row(dtype t, std::int64_t cols, int lanes, int lane, bool offset_q8, const std::byte* src,
    std::byte* scales, std::byte* values) {
    const int values_per_block = is_k(t) ? k_block : sub_block;
    const auto file_block = static_cast<std::int64_t>(row_bytes(t, values_per_block));
    for (std::int64_t k = 0; k < cols; k += values_per_block) {
        const u8* b = reinterpret_cast<const u8*>(src) + k / values_per_block * file_block;
        write_scales(
            t, b, lanes, lane, reinterpret_cast<u8*>(scales) + k / values_per_block * row_scale_bytes(t) * lanes);
        for (int sub = 0; sub < values_per_block / sub_block; ++sub) {
            u8 q[32];
            read_levels(t, b, sub, offset_q8, q);
            const std::int64_t block = k / sub_block + sub;
            write_levels(t, q, lanes, lane, reinterpret_cast<u8*>(values) + block * row_level_bytes(t) * lanes);
        }
    }
}

void pack_plain_row(dtype t, std::int64_t cols, int lanes, int lane, const std::byte* src, std::byte* values) {
    const std::int64_t size = t == dtype::f32 ? 4 : 2;
    for (std::int64_t k = 0; k < cols; ++k)
        std::memcpy(values + (k * lanes + lane) * size, src + k * size, static_cast<std::size_t>(size));
}

}  // namespace

packed_group packed_group_layout(dtype t, std::int64_t cols, int lanes) {
    if (!info(t).quantized) {
        const std::int64_t size = t == dtype::f32 ? 4 : 2;
        return {0, round_up(cols * lanes * size, 64)};
    }
    CHECK(cols % info(t).block_values == 0, "a row is whole blocks");
    const std::int64_t scales = round_up(cols / (is_k(t) ? k_block : sub_block) * row_scale_bytes(t) * lanes, 64);
    return {scales, round_up(scales + cols / sub_block * row_level_bytes(t) * lanes, 64)};
}

std::size_t packed_weight_bytes(dtype t, std::int64_t rows, std::int64_t cols, int lanes) {
    const std::int64_t groups = (rows + lanes - 1) / lanes;
    return static_cast<std::size_t>(groups * packed_group_layout(t, cols, lanes).bytes);
}

void pack_weight(pool& threads, dtype t, std::int64_t rows, std::int64_t cols, int lanes, bool offset_q8,
    const std::byte* src, std::byte* dst) {
    const packed_group layout = packed_group_layout(t, cols, lanes);
    const auto src_row = static_cast<std::int64_t>(row_bytes(t, cols));
    const std::int64_t groups = (rows + lanes - 1) / lanes;
    threads.run(groups, [&](std::int64_t g, int) {
        std::byte* out = dst + g * layout.bytes;
        std::memset(out, 0, static_cast<std::size_t>(layout.bytes));
        for (int lane = 0; lane < lanes && g * lanes + lane < rows; ++lane) {
            const std::byte* row = src + (g * lanes + lane) * src_row;
            if (info(t).quantized)
                pack_quantized_row(t, cols, lanes, lane, offset_q8, row, out, out + layout.scale_bytes);
            else
                pack_plain_row(t, cols, lanes, lane, row, out);
        }
    });
}

}  // namespace troupe::kernels
