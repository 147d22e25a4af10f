// Reference products: weights stay in file layout, a row is dequantized, the dot product runs in double over float
// activations.
#include <algorithm>
#include <cstring>
#include <vector>

#include "core/check.hpp"
#include "kernels/ref/ref.hpp"

namespace troupe::kernels::ref {
namespace {

// Rows of x a pass: independent sums, so that the chain of additions does not set the pace.
constexpr std::int64_t tile = 8;

std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// Whole tiles of x[n, cols] as [tile][cols][row of the tile], so that the sums of a tile lie side by side.
std::vector<double> turned(const float* x, std::int64_t n, std::int64_t cols) {
    std::vector<double> y(static_cast<std::size_t>(n / tile * tile * cols));
    for (std::int64_t i = 0; i < n / tile * tile; ++i)
        for (std::int64_t j = 0; j < cols; ++j)
            y[static_cast<std::size_t>((i / tile * cols + j) * tile + i % tile)] = x[i * cols + j];
    return y;
}

void dot_tile(const float* w, const double* x, std::int64_t cols, double* sums) {
    double acc[tile] = {};
    for (std::int64_t j = 0; j < cols; ++j) {
        const double value = w[j];
        for (std::int64_t t = 0; t < tile; ++t) acc[t] += value * x[j * tile + t];
    }
    std::copy_n(acc, tile, sums);
}

void dot_rest(const float* w, const float* x, std::int64_t n_x, std::int64_t cols, double* sums) {
    for (std::int64_t t = 0; t < n_x; ++t) {
        sums[t] = 0;
        for (std::int64_t j = 0; j < cols; ++j) sums[t] += static_cast<double>(w[j]) * x[t * cols + j];
    }
}

}  // namespace

std::size_t packed_bytes(dtype type, std::int64_t rows, std::int64_t cols) {
    return aligned(static_cast<std::size_t>(rows) * row_bytes(type, cols));
}

void pack(pool&, dtype type, std::int64_t rows, std::int64_t cols, const std::byte* src, std::byte* dst) {
    const std::size_t bytes = static_cast<std::size_t>(rows) * row_bytes(type, cols);
    std::memcpy(dst, src, bytes);
    std::memset(dst + bytes, 0, aligned(bytes) - bytes);
}

std::size_t linear_scratch_bytes(std::int64_t max_cols, int n_threads) {
    return static_cast<std::size_t>(n_threads) * aligned(static_cast<std::size_t>(max_cols) * sizeof(float));
}

void linear(context& c, const float* x, std::int64_t n, std::int64_t cols, const linear_job* jobs, int n_jobs) {
    CHECK(c.scratch.size() >= linear_scratch_bytes(cols, c.threads.size()), "scratch");
    const std::size_t stride = aligned(static_cast<std::size_t>(cols) * sizeof(float));
    const auto tiles = turned(x, n, cols);
    for (int k = 0; k < n_jobs; ++k) {
        const linear_job& job = jobs[k];
        CHECK(job.w->cols == cols && job.ldy >= job.w->rows);
        const std::size_t row = row_bytes(job.w->type, cols);
        c.threads.run(job.w->rows, [&](std::int64_t r, int thread) {
            float* w = reinterpret_cast<float*>(c.scratch.data() + static_cast<std::size_t>(thread) * stride);
            dequantize(job.w->type, job.w->data + static_cast<std::size_t>(r) * row, cols, w);
            for (std::int64_t i = 0; i < n; i += tile) {
                double sums[tile];
                const std::int64_t n_x = std::min(tile, n - i);
                if (n_x == tile)
                    dot_tile(w, tiles.data() + i * cols, cols, sums);
                else
                    dot_rest(w, x + i * cols, n_x, cols, sums);
                for (std::int64_t t = 0; t < n_x; ++t)
                    job.y[(i + t) * job.ldy + r] = static_cast<float>(sums[t] + (job.bias ? job.bias[r] : 0.0f));
            }
        });
    }
}

}  // namespace troupe::kernels::ref
