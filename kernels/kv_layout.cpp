// KV block layout: sizes, and exact scalar reads and writes shared by all tables.
#include "kernels/kv_layout.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/check.hpp"

namespace troupe::kernels {
namespace {

constexpr int q8_values = 32, q8_bytes = 34;

void store_value(dtype type, std::byte* base, std::size_t index, float value) {
    if (type == dtype::f32) {
        std::memcpy(base + 4 * index, &value, 4);
        return;
    }
    const std::uint16_t bits = type == dtype::f16 ? float_to_half(value) : float_to_bfloat(value);
    std::memcpy(base + 2 * index, &bits, 2);
}

float load_value(dtype type, const std::byte* base, std::size_t index) {
    float value;
    dequantize(type, base + index * static_cast<std::size_t>(info(type).block_bytes), 1, &value);
    return value;
}

/// One block of 32 values: d = max|x| / 127 kept as F16, quanta by round to nearest even of x / d.
void store_q8_block(std::byte* block, const float* x) {
    std::uint32_t max_bits = 0;  // as integers, so that NaN counts as larger than infinity
    for (int i = 0; i < q8_values; ++i) max_bits = std::max(max_bits, std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu);
    const float d = std::bit_cast<float>(max_bits) / 127.0f;
    std::uint16_t half = float_to_half(d);
    const bool usable = (half & 0x7fff) != 0 && (half & 0x7c00) != 0x7c00;
    const float inverse = usable ? 1.0f / d : 0.0f;
    if (!usable && half != 0) half = 0x7e00;
    std::memcpy(block, &half, 2);
    for (int i = 0; i < q8_values; ++i) {
        const std::int8_t q = usable ? static_cast<std::int8_t>(std::nearbyintf(x[i] * inverse)) : std::int8_t{0};
        std::memcpy(block + 2 + i, &q, 1);
    }
}

}  // namespace

std::size_t kv_head_bytes(const kv_geometry& g) { return kv_block_tokens * row_bytes(g.type, g.head_dim); }

std::size_t kv_half_bytes(const kv_geometry& g) { return static_cast<std::size_t>(g.n_kv_heads) * kv_head_bytes(g); }

std::size_t kv_layer_block_bytes(const kv_geometry& g) { return (2 * kv_half_bytes(g) + 63) / 64 * 64; }

void kv_check(const kv_geometry& g) {
    CHECK(g.type == dtype::f32 || g.type == dtype::f16 || g.type == dtype::bf16 || g.type == dtype::q8_0, "KV type");
    CHECK(g.n_kv_heads > 0 && g.head_dim > 0 && g.head_dim % info(g.type).block_values == 0, "KV geometry");
}

void kv_write_token(const kv_geometry& g, std::byte* layer, int token, const float* k, const float* v) {
    const std::size_t dim = static_cast<std::size_t>(g.head_dim), head_bytes = kv_head_bytes(g);
    std::byte* values = layer + kv_half_bytes(g);
    for (int h = 0; h < g.n_kv_heads; ++h, k += dim, v += dim, layer += head_bytes, values += head_bytes) {
        if (g.type == dtype::q8_0) {
            const std::size_t row = row_bytes(g.type, g.head_dim), at = static_cast<std::size_t>(token) * row;
            for (std::size_t b = 0; b < dim / q8_values; ++b) {
                store_q8_block(layer + at + b * q8_bytes, k + b * q8_values);
                store_q8_block(values + at + b * q8_bytes, v + b * q8_values);
            }
            continue;
        }
        for (std::size_t d = 0; d < dim; ++d) {
            store_value(g.type, layer, d * kv_block_tokens + static_cast<std::size_t>(token), k[d]);
            store_value(g.type, values, static_cast<std::size_t>(token) * dim + d, v[d]);
        }
    }
}

void kv_read_token(const kv_geometry& g, const std::byte* layer, int kv_head, int token, float* k, float* v) {
    const std::size_t dim = static_cast<std::size_t>(g.head_dim), row = row_bytes(g.type, g.head_dim);
    const std::byte* keys = layer + static_cast<std::size_t>(kv_head) * kv_head_bytes(g);
    const std::byte* values = keys + kv_half_bytes(g);
    if (v) dequantize(g.type, values + static_cast<std::size_t>(token) * row, g.head_dim, v);
    if (!k) return;
    if (g.type == dtype::q8_0) return dequantize(g.type, keys + static_cast<std::size_t>(token) * row, g.head_dim, k);
    for (std::size_t d = 0; d < dim; ++d)
        k[d] = load_value(g.type, keys, d * kv_block_tokens + static_cast<std::size_t>(token));
}

}  // namespace troupe::kernels
