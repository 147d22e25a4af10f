// Reference products of stacks of matrices, and the sum over a row's experts: in double, one slot after the other.
#include "core/check.hpp"
#include "kernels/ref/ref.hpp"
#include "kernels/routing.hpp"

namespace troupe::kernels::ref {
namespace {

void multiply(context& c, const float* x, std::int64_t ldx, const slot_map& map, const weight_stack& w, float* y,
    std::int64_t ldy) {
    CHECK(w.count == map.matrices && ldy >= w.rows);
    const std::size_t row = row_bytes(w.type, w.cols), matrix = packed_bytes(w.type, w.rows, w.cols);
    const std::size_t stride = linear_scratch_bytes(w.cols, 1);
    CHECK(c.scratch.size() >= stride * static_cast<std::size_t>(c.threads.size()), "scratch");
    c.threads.run(w.count * w.rows, [&](std::int64_t task, int thread) {
        const std::int64_t m = task / w.rows, r = task % w.rows;
        if (map.count(m) == 0) return;
        float* values = reinterpret_cast<float*>(c.scratch.data() + static_cast<std::size_t>(thread) * stride);
        dequantize(
            w.type, w.data + static_cast<std::size_t>(m) * matrix + static_cast<std::size_t>(r) * row, w.cols, values);
        for (std::int64_t i = 0; i < map.count(m); ++i) {
            const float* in = x + map.x_row(map.begin(m) + i) * ldx;
            double sum = 0;
            for (std::int64_t j = 0; j < w.cols; ++j) sum += static_cast<double>(values[j]) * in[j];
            y[(map.y_row(m) + i * map.y_step()) * ldy + r] = static_cast<float>(sum);
        }
    });
}

}  // namespace

void linear_heads(
    context& c, const float* x, std::int64_t ldx, std::int64_t n, const weight_stack& w, float* y, std::int64_t ldy) {
    multiply(c, x, ldx, slot_map::heads(w, n), w, y, ldy);
}

void linear_experts(
    context& c, const float* x, expert_input input, const routing& r, const expert_job* jobs, int n_jobs) {
    for (int k = 0; k < n_jobs; ++k)
        multiply(c, x, jobs[k].w->cols, slot_map::experts(r, input), *jobs[k].w, jobs[k].y, jobs[k].w->rows);
}

void combine(context& c, const routing& r, const float* parts, std::int64_t n, std::int64_t dim, float* y) {
    c.threads.run(n, [&](std::int64_t i, int) {
        for (std::int64_t j = 0; j < dim; ++j) {
            double sum = 0;
            for (std::int64_t k = i * r.n_used; k < (i + 1) * r.n_used; ++k)
                sum += static_cast<double>(r.weight[k]) * parts[r.slot[k] * dim + j];
            y[i * dim + j] = static_cast<float>(sum);
        }
    });
}

}  // namespace troupe::kernels::ref
