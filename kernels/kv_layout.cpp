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

std::size_t kv_layer_block_bytes(const kv_geometry& g) {
    return ((g.latent > 0 ? 1 : 2) * kv_half_bytes(g) + 63) / 64 * 64;
}

void kv_check(const kv_geometry& g) {
    CHECK(g.type == dtype::f32 || g.type == dtype::f16 || g.type == dtype::bf16 || g.type == dtype::q8_0, "KV type");
    const int block = info(g.type).block_values;
    CHECK(g.n_kv_heads > 0 && g.head_dim > 0 && g.head_dim % block == 0, "KV geometry");
    CHECK(g.latent >= 0 && g.latent <= g.head_dim && g.latent % block == 0, "KV geometry");
}

namespace {

/// n values of one head's key from value `first` on.
void write_key(const kv_geometry& g, std::byte* keys, int first, int token, const float* x, int n) {
    const auto at = static_cast<std::size_t>(first), slot = static_cast<std::size_t>(token);
    if (g.type == dtype::q8_0) {
        std::byte* row = keys + slot * row_bytes(g.type, g.head_dim) + row_bytes(g.type, first);
        for (int b = 0; b < n / q8_values; ++b) store_q8_block(row + b * q8_bytes, x + b * q8_values);
        return;
    }
    for (std::size_t d = 0; d < static_cast<std::size_t>(n); ++d)
        store_value(g.type, keys, (at + d) * kv_block_tokens + slot, x[d]);
}

}  // namespace

void kv_write_token(const kv_geometry& g, std::byte* layer, int token, const float* k, const float* v) {
    const std::size_t head_bytes = kv_head_bytes(g), row = row_bytes(g.type, g.head_dim);
    std::byte* values = layer + kv_half_bytes(g);
    for (int h = 0; h < g.n_kv_heads; ++h, k += g.own_dim(), v += g.value_dim(), layer += head_bytes) {
        write_key(g, layer, g.latent, token, k, g.own_dim());
        if (g.latent > 0) {
            write_key(g, layer, 0, token, v, g.latent);
            continue;
        }
        std::byte* at = values + static_cast<std::size_t>(h) * head_bytes + static_cast<std::size_t>(token) * row;
        for (int d = 0; d < g.head_dim; d += g.type == dtype::q8_0 ? q8_values : 1) {
            if (g.type == dtype::q8_0)
                store_q8_block(at + d / q8_values * q8_bytes, v + d);
            else
                store_value(g.type, at, static_cast<std::size_t>(d), v[d]);
        }
    }
}

void kv_read_token(const kv_geometry& g, const std::byte* layer, int kv_head, int token, float* k, float* v) {
    const std::size_t row = row_bytes(g.type, g.head_dim), slot = static_cast<std::size_t>(token);
    const std::byte* keys = layer + static_cast<std::size_t>(kv_head) * kv_head_bytes(g);
    const std::byte* values = keys + kv_half_bytes(g);
    const auto read_key = [&](int n, float* to) {
        if (g.type == dtype::q8_0) return dequantize(g.type, keys + slot * row, n, to);
        for (std::size_t d = 0; d < static_cast<std::size_t>(n); ++d)
            to[d] = load_value(g.type, keys, d * kv_block_tokens + slot);
    };
    if (k) read_key(g.head_dim, k);
    if (v && g.latent > 0) read_key(g.latent, v);
    if (v && g.latent == 0) dequantize(g.type, values + slot * row, g.head_dim, v);
}

}  // namespace troupe::kernels
