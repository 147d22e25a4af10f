// Reference row ops and the table "ref".
#include "kernels/ref/ref.hpp"

#include <algorithm>
#include <cmath>

#include "core/check.hpp"
#include "kernels/routing.hpp"

namespace troupe::kernels::ref {
namespace {

std::size_t scratch_bytes(const scratch_need& need) {
    return std::max(linear_scratch_bytes(need.max_cols, need.n_threads),
        attention_scratch_bytes(need.n_heads, need.head_dim, need.n_threads));
}

void embed(context& c, dtype type, std::int64_t cols, const std::byte* table, const std::int32_t* ids, std::int64_t n,
    float scale, float* y) {
    const std::size_t row = row_bytes(type, cols);
    c.threads.run(n, [&](std::int64_t i, int) {
        float* out = y + i * cols;
        dequantize(type, table + static_cast<std::size_t>(ids[i]) * row, cols, out);
        for (std::int64_t j = 0; j < cols; ++j) out[j] *= scale;
    });
}

void rms_norm(context& c, const float* x, const float* w, std::int64_t n, std::int64_t dim, float eps, float* y) {
    c.threads.run(n, [&](std::int64_t i, int) {
        const float* in = x + i * dim;
        double sum = 0;
        for (std::int64_t j = 0; j < dim; ++j) sum += static_cast<double>(in[j]) * in[j];
        const double inverse = 1.0 / std::sqrt(sum / static_cast<double>(dim) + static_cast<double>(eps));
        for (std::int64_t j = 0; j < dim; ++j) y[i * dim + j] = static_cast<float>(in[j] * inverse * (w ? w[j] : 1.0f));
    });
}

void add(context& c, float* x, const float* y, std::int64_t n, std::int64_t dim) {
    c.threads.run(n, [&](std::int64_t i, int) {
        for (std::int64_t j = i * dim; j < (i + 1) * dim; ++j) x[j] += y[j];
    });
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

/// GELU's (1 + tanh(z)) / 2 is sigmoid(2 z), which does not cancel for negative z.
double activation(gate kind, double g) {
    if (kind == gate::silu) return g * sigmoid(g);
    const double sqrt_2_over_pi = 0.79788456080286535588;
    return g * sigmoid(2 * sqrt_2_over_pi * (g + 0.044715 * g * g * g));
}

void gated(context& c, gate kind, const float* g, const float* u, std::int64_t n, std::int64_t dim, float* y) {
    c.threads.run(n, [&](std::int64_t i, int) {
        for (std::int64_t j = i * dim; j < (i + 1) * dim; ++j) y[j] = static_cast<float>(activation(kind, g[j]) * u[j]);
    });
}

void softcap(context& c, float* x, std::int64_t n, std::int64_t dim, float cap) {
    c.threads.run(n, [&](std::int64_t i, int) {
        for (std::int64_t j = i * dim; j < (i + 1) * dim; ++j)
            x[j] = static_cast<float>(cap * std::tanh(static_cast<double>(x[j]) / cap));
    });
}

void rope_angles(context& c, const double* inv_freq, int half, double magnitude, const std::int32_t* pos,
    std::int64_t n, float* angles) {
    c.threads.run(n, [&](std::int64_t i, int) {
        float* cosines = angles + i * 2 * half;
        for (int j = 0; j < half; ++j) {
            const double angle = pos[i] * inv_freq[j];
            cosines[j] = static_cast<float>(magnitude * std::cos(angle));
            cosines[half + j] = static_cast<float>(magnitude * std::sin(angle));
        }
    });
}

void rotate(float& a, float& b, double cosine, double sine) {
    const double x = a, y = b;
    a = static_cast<float>(x * cosine - y * sine);
    b = static_cast<float>(x * sine + y * cosine);
}

void rope(
    context& c, float* x, std::int64_t n, int n_heads, int head_dim, int half, rope_pairs pairs, const float* angles) {
    CHECK(2 * half <= head_dim);
    c.threads.run(n, [&](std::int64_t i, int) {
        const float* cosines = angles + i * 2 * half;
        for (int h = 0; h < n_heads; ++h) {
            float* head = x + (i * n_heads + h) * head_dim;
            for (int j = 0; j < half; ++j) {
                const bool adjacent = pairs == rope_pairs::adjacent;
                rotate(
                    head[adjacent ? 2 * j : j], head[adjacent ? 2 * j + 1 : j + half], cosines[j], cosines[half + j]);
            }
        }
    });
}

bool all_finite(const float* x, std::int64_t n) {
    return std::all_of(x, x + n, [](float v) { return std::isfinite(v); });
}

}  // namespace

const ops table{
    .name = "ref",
    .packed_bytes = packed_bytes,
    .pack = pack,
    .scratch_bytes = scratch_bytes,
    .embed = embed,
    .rms_norm = rms_norm,
    .add = add,
    .gated = gated,
    .softcap = softcap,
    .rope_angles = rope_angles,
    .rope = rope,
    .linear = linear,
    .linear_heads = linear_heads,
    .copy_rows = copy_rows,
    .route = route,
    .linear_experts = linear_experts,
    .combine = combine,
    .kv_store = kv_store,
    .attention = attention,
    .all_finite = all_finite,
};

}  // namespace troupe::kernels::ref
