// Reference products: weights stay in file layout, a row is dequantized, the dot product runs in double over float
// activations.
#include <algorithm>
#include <cstring>

#include "core/check.hpp"
#include "kernels/ref/ref.hpp"

namespace troupe::kernels::ref {
namespace {

// Rows of x a pass: independent sums, so that the chain of additions does not set the pace.
constexpr std::int64_t tile = 8;
constexpr std::int64_t block = 16;  // rows of weights a pass: a tile is turned once for all of them

std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// A tile of x[tile, cols] as [cols][tile], so that its sums lie side by side.
void turn(const float* x, std::int64_t cols, double* y) {
    for (std::int64_t t = 0; t < tile; ++t)
        for (std::int64_t j = 0; j < cols; ++j) y[j * tile + t] = x[t * cols + j];
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
    const auto cols = static_cast<std::size_t>(max_cols);
    return static_cast<std::size_t>(n_threads) * aligned(cols * (block * sizeof(float) + tile * sizeof(double)));
}

void linear(context& c, const float* x, std::int64_t n, std::int64_t cols, const linear_job* jobs, int n_jobs) {
    CHECK(c.scratch.size() >= linear_scratch_bytes(cols, c.threads.size()), "scratch");
    const std::size_t stride = linear_scratch_bytes(cols, 1);
    for (int k = 0; k < n_jobs; ++k) {
        const linear_job& job = jobs[k];
        CHECK(job.w->cols == cols && job.ldy >= job.w->rows);
        const std::size_t row = row_bytes(job.w->type, cols);
        c.threads.run((job.w->rows + block - 1) / block, [&](std::int64_t b, int thread) {
            auto* const turned =
                reinterpret_cast<double*>(c.scratch.data() + static_cast<std::size_t>(thread) * stride);
            auto* const w = reinterpret_cast<float*>(turned + tile * cols);
            const std::int64_t first = b * block, end = std::min(first + block, job.w->rows);
            for (std::int64_t r = first; r < end; ++r)
                dequantize(job.w->type, job.w->data + static_cast<std::size_t>(r) * row, cols, w + (r - first) * cols);
            for (std::int64_t i = 0; i < n; i += tile) {
                const std::int64_t n_x = std::min(tile, n - i);
                if (n_x == tile) turn(x + i * cols, cols, turned);
                for (std::int64_t r = first; r < end; ++r) {
                    double sums[tile];
                    if (n_x == tile)
                        dot_tile(w + (r - first) * cols, turned, cols, sums);
                    else
                        dot_rest(w + (r - first) * cols, x + i * cols, n_x, cols, sums);
                    for (std::int64_t t = 0; t < n_x; ++t)
                        job.y[(i + t) * job.ldy + r] = static_cast<float>(sums[t] + (job.bias ? job.bias[r] : 0.0f));
                }
            }
        });
    }
}

}  // namespace troupe::kernels::ref
