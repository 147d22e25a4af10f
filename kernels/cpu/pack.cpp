// File layout to packed layout; the bit positions of the file formats are those of the GGUF specification.
#include "kernels/cpu/pack.hpp"

#include <cstring>

#include "core/check.hpp"
#include "kernels/block_fields.hpp"

namespace troupe::kernels {
namespace {

using u8 = std::uint8_t;

constexpr int k_block = 256;   // values in a block of the K formats
constexpr int sub_block = 32;  // values that share an activation scale
constexpr int k_subs = k_block / sub_block;

std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

/// Bytes of scales for one row: per 32 values, or per 256 for the K formats.
int row_scale_bytes(dtype t) {
    switch (t) {
    case dtype::q4_0:
    case dtype::q5_0:
    case dtype::q8_0:
    case dtype::iq4_nl:
        return 2;
    case dtype::awq_32:
    case dtype::awq_64:
    case dtype::awq_128:
        return 3;
    case dtype::q4_1:
    case dtype::q5_1:
    case dtype::mxfp4:
        return 4;
    case dtype::iq4_xs:
        return 2 + k_subs;
    case dtype::q2_k:
        return 4 + 4 * k_subs;
    case dtype::q4_k:
    case dtype::q5_k:
        return 4 + 2 * k_subs;
    case dtype::q6_k:
    case dtype::q3_k:
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
    case dtype::q2_k:
    case dtype::q3_k:
    case dtype::iq4_nl:
    case dtype::iq4_xs:
    case dtype::mxfp4:
    case dtype::awq_32:
    case dtype::awq_64:
    case dtype::awq_128:
        return 16;
    case dtype::q5_0:
    case dtype::q5_1:
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

using word = std::uint32_t;  // the 4 levels of a quad

word load_word(const u8* p) {
    word w;
    std::memcpy(&w, p, sizeof w);
    return w;
}

template <class Level> void fill(u8 q[32], Level level) {
    for (int i = 0; i < 32; ++i) q[i] = static_cast<u8>(level(i));
}

/// 32 nibbles of 16 bytes: the low ones first.
void read_split_nibbles(const u8* qs, u8 q[32]) {
    for (int i = 0; i < 16; ++i) q[i] = qs[i] & 15;
    for (int i = 0; i < 16; ++i) q[16 + i] = qs[i] >> 4;
}

/// The levels of 32 values, sub-block `sub` of the file block at `b`.
void read_levels(dtype t, const u8* b, int sub, bool offset_q8, u8 q[32]) {
    const int nibble = sub % 2 * 4;
    switch (t) {
    case dtype::q4_0:
        return read_split_nibbles(b + 2, q);
    case dtype::q4_1:
        return read_split_nibbles(b + 4, q);
    case dtype::q5_0:
    case dtype::q5_1: {
        const u8* levels = b + (t == dtype::q5_0 ? 2 : 4);
        const word fifth = load_word(levels);
        read_split_nibbles(levels + 4, q);
        return fill(q, [&](int i) { return q[i] | (fifth >> i & 1) << 4; });
    }
    case dtype::iq4_nl:
        return read_split_nibbles(b + 2, q);
    case dtype::iq4_xs:
        return read_split_nibbles(b + 8 + 16 * sub, q);
    case dtype::mxfp4:
        return read_split_nibbles(b + 1, q);
    case dtype::awq_32:
    case dtype::awq_64:
    case dtype::awq_128:
        return read_split_nibbles(b + 4 + 16 * sub, q);
    case dtype::q2_k:
        return fill(q, [&, qs = b + 16 + sub / 4 * 32](int i) { return (qs[i] >> sub % 4 * 2) & 3; });
    case dtype::q3_k:
        return fill(q,
            [&, qs = b + 32 + sub / 4 * 32](int i) { return ((qs[i] >> sub % 4 * 2) & 3) | ((b[i] >> sub) & 1) << 2; });
    case dtype::q8_0: {
        const u8 flip = offset_q8 ? 0x80 : 0;
        return fill(q, [&](int i) { return b[2 + i] ^ flip; });
    }
    case dtype::q4_k:
        return fill(q, [&, qs = b + 16 + sub / 2 * 32](int i) { return (qs[i] >> nibble) & 15; });
    case dtype::q5_k:
        return fill(q, [&, qs = b + 48 + sub / 2 * 32](
                           int i) { return ((qs[i] >> nibble) & 15) | ((b[16 + i] >> sub) & 1) << 4; });
    case dtype::q6_k: {
        const int half = sub / 4, quarter = sub % 4;
        const u8 *low = b + half * 64 + quarter % 2 * 32, *high = b + 128 + half * 32;
        const int low_shift = quarter / 2 * 4, high_shift = quarter * 2;
        return fill(q, [&](int i) { return ((low[i] >> low_shift) & 15) | ((high[i] >> high_shift) & 3) << 4; });
    }
    default:
        CHECK(false, "a quantized type");
    }
}

/// Scales of one row's file block `b` into the group's scale block `out`.
void write_scales(dtype t, const u8* b, int lanes, int lane, u8* out) {
    const int f16_row = 2 * lanes;
    switch (t) {
    case dtype::q4_0:
    case dtype::q5_0:
    case dtype::q8_0:
    case dtype::iq4_nl:
        std::memcpy(out + 2 * lane, b, 2);
        break;
    case dtype::mxfp4: {
        const float scale = mxfp4_scale(b[0]);
        std::memcpy(out + 4 * lane, &scale, 4);
        break;
    }
    case dtype::iq4_xs:
        std::memcpy(out + 2 * lane, b, 2);
        for (int j = 0; j < k_subs; ++j) out[f16_row + j * lanes + lane] = static_cast<u8>(iq4_xs_scale(b + 2, j));
        break;
    case dtype::q2_k:
        std::memcpy(out + 2 * lane, b + 80, 2);
        std::memcpy(out + f16_row + 2 * lane, b + 82, 2);
        for (int j = 0; j < 2 * k_subs; ++j) {
            u8* p = out + 2 * f16_row + (j / 2 * 4 + j % 2) * lanes + lane;
            p[0] = b[j] & 15;
            p[2 * lanes] = b[j] >> 4;
        }
        break;
    case dtype::q3_k:
        std::memcpy(out + 2 * lane, b + 108, 2);
        for (int j = 0; j < 2 * k_subs; ++j) out[f16_row + j * lanes + lane] = static_cast<u8>(q3_k_scale(b + 96, j));
        break;
    case dtype::awq_32:
    case dtype::awq_64:
    case dtype::awq_128:
        std::memcpy(out + 2 * lane, b, 2);
        out[f16_row + lane] = b[2];
        break;
    case dtype::q4_1:
    case dtype::q5_1:
        std::memcpy(out + 2 * lane, b, 2);
        std::memcpy(out + f16_row + 2 * lane, b + 2, 2);
        break;
    case dtype::q4_k:
    case dtype::q5_k:
        std::memcpy(out + 2 * lane, b, 2);
        std::memcpy(out + f16_row + 2 * lane, b + 2, 2);
        for (int j = 0; j < k_subs; ++j) {
            u8* p = out + 2 * f16_row + j * 2 * lanes + lane;
            const scale_min s = k_scale_min(b + 4, j);
            p[0] = static_cast<u8>(s.scale);
            p[lanes] = static_cast<u8>(s.min);
        }
        break;
    case dtype::q6_k:
        std::memcpy(out + 2 * lane, b + 208, 2);
        for (int j = 0; j < 2 * k_subs; ++j) out[f16_row + j * lanes + lane] = b[192 + j];
        break;
    default:
        CHECK(false, "a quantized type");
    }
}

/// Levels of 32 values of one row into the group's level block `out`.
void write_levels(dtype t, const u8 q[32], int lanes, int lane, u8* out) {
    const int vec = 4 * lanes;
    out += 4 * lane;
    word quads[8];
    std::memcpy(quads, q, sizeof quads);
    const auto put = [&](int vector, word w) { std::memcpy(out + vector * vec, &w, sizeof w); };
    if (t == dtype::q8_0) {
        for (int i = 0; i < 8; ++i) put(i, quads[i]);
        return;
    }
    constexpr word low = 0x0f0f0f0f;
    for (int p = 0; p < 4; ++p) put(p, (quads[2 * p] & low) | (quads[2 * p + 1] & low) << 4);
    word upper[2] = {};
    if (row_level_bytes(t) == 20) {
        for (int i = 0; i < 8; ++i) upper[0] |= (quads[i] >> 4 & 0x01010101) << i;
        put(4, upper[0]);
    } else if (t == dtype::q6_k) {
        for (int i = 0; i < 8; ++i) upper[i / 4] |= (quads[i] >> 4 & 0x03030303) << (i % 4 * 2);
        put(4, upper[0]);
        put(5, upper[1]);
    }
}

void pack_quantized_row(dtype t, std::int64_t cols, int lanes, int lane, bool offset_q8, const std::byte* src,
    std::byte* scales, std::byte* values) {
    const int values_per_block = info(t).block_values;
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

template <class Value>
void pack_plain_row(std::int64_t cols, int lanes, int lane, const std::byte* src, std::byte* values) {
    constexpr auto size = static_cast<std::int64_t>(sizeof(Value));
    for (std::int64_t k = 0; k < cols; ++k)
        std::memcpy(values + (k * lanes + lane) * size, src + k * size, sizeof(Value));
}

}  // namespace

packed_group packed_group_layout(dtype t, std::int64_t cols, int lanes) {
    if (!info(t).quantized) {
        const std::int64_t size = t == dtype::f32 ? 4 : 2;
        return {0, round_up(cols * lanes * size, 64)};
    }
    CHECK(cols % info(t).block_values == 0, "a row is whole blocks");
    const std::int64_t scales = round_up(cols / info(t).block_values * row_scale_bytes(t) * lanes, 64);
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
            else if (t == dtype::f32)
                pack_plain_row<std::uint32_t>(cols, lanes, lane, row, out);
            else
                pack_plain_row<std::uint16_t>(cols, lanes, lane, row, out);
        }
    });
}

}  // namespace troupe::kernels
