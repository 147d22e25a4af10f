// The op tables over an instruction set's kernels: threads, checks and scratch, in code any x86-64 runs.
#include "kernels/cpu/tables.hpp"

#include <algorithm>
#include <cmath>

#include "core/check.hpp"
#include "kernels/cpu/attention.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/linear.hpp"
#include "kernels/routing.hpp"

namespace troupe::kernels::cpu {
namespace {

/// Values a task handles: some microseconds of work, so that handing it out costs little beside it.
constexpr std::int64_t task_values = 8192;

/// body(begin, end) over pieces of [0, n) of about task_values / values_each items.
template <class Body> void for_pieces(pool& threads, std::int64_t n, std::int64_t values_each, Body body) {
    const std::int64_t items = std::max<std::int64_t>(1, task_values / std::max<std::int64_t>(1, values_each));
    threads.run((n + items - 1) / items, [&](std::int64_t i, int) { body(i * items, std::min(n, (i + 1) * items)); });
}

void embed(context& c, dtype type, std::int64_t cols, const std::byte* table, const std::int32_t* ids, std::int64_t n,
    float scale, float* y) {
    const std::size_t row = row_bytes(type, cols);
    for_pieces(c.threads, n, cols, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            float* out = y + i * cols;
            dequantize(type, table + static_cast<std::size_t>(ids[i]) * row, cols, out);
            for (std::int64_t j = 0; j < cols; ++j) out[j] *= scale;
        }
    });
}

/// In double and once a step for all layers: the same for both instruction sets.
void rope_angles(context& c, const double* inv_freq, int half, double magnitude, const std::int32_t* pos,
    std::int64_t n, float* angles) {
    constexpr std::int64_t sine_cost = 32;  // of a sine and a cosine, in plain values
    for_pieces(c.threads, n, half * sine_cost, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            float* cosines = angles + i * 2 * half;
            for (int j = 0; j < half; ++j) {
                const double angle = pos[i] * inv_freq[j];
                cosines[j] = static_cast<float>(magnitude * std::cos(angle));
                cosines[half + j] = static_cast<float>(magnitude * std::sin(angle));
            }
        }
    });
}

template <const isa_kernels& isa, const linear_ops& products> struct on {
    static std::size_t scratch_bytes(const scratch_need& need) {
        return std::max({products.scratch_bytes(need.max_rows, need.max_cols),
            products.stack_scratch_bytes(need.stack_values, need.stack_count),
            attention_scratch_bytes(need.max_rows, need.n_heads, need.head_dim, need.n_threads)});
    }
    static std::size_t packed_bytes(dtype type, std::int64_t rows, std::int64_t cols) {
        return products.packed_bytes(type, rows, cols);
    }
    static void pack(
        pool& threads, dtype type, std::int64_t rows, std::int64_t cols, const std::byte* src, std::byte* dst) {
        products.pack(threads, type, rows, cols, src, dst);
    }
    static void linear(
        context& c, const float* x, std::int64_t n, std::int64_t cols, const linear_job* jobs, int n_jobs) {
        products.linear(c, x, n, cols, jobs, n_jobs);
    }
    static void linear_heads(context& c, const float* x, std::int64_t ldx, std::int64_t n, const weight_stack& w,
        float* y, std::int64_t ldy) {
        const stack_job job{&w, y, ldy};
        products.stack(c, x, ldx, slot_map::heads(w, n), &job, 1);
    }
    static void linear_experts(
        context& c, const float* x, expert_input input, const routing& r, const expert_job* jobs, int n_jobs) {
        stack_job dense[most_stack_jobs];
        CHECK(n_jobs >= 1 && n_jobs <= most_stack_jobs);
        for (int k = 0; k < n_jobs; ++k) dense[k] = {jobs[k].w, jobs[k].y, jobs[k].w->rows};
        products.stack(c, x, dense[0].w->cols, slot_map::experts(r, input), dense, n_jobs);
    }
    static void combine(context& c, const routing& r, const float* parts, std::int64_t n, std::int64_t dim, float* y) {
        for_pieces(c.threads, n, dim * r.n_used, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                const float* weight = r.weight + i * r.n_used;
                const std::int32_t* slot = r.slot + i * r.n_used;
                isa.scale_row(parts + slot[0] * dim, weight[0], nullptr, dim, y + i * dim);
                for (int k = 1; k < r.n_used; ++k) isa.add_scaled(y + i * dim, parts + slot[k] * dim, weight[k], dim);
            }
        });
    }

    static void rms_norm(
        context& c, const float* x, const float* w, std::int64_t n, std::int64_t dim, float eps, float* y) {
        for_pieces(c.threads, n, dim, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                const double mean = isa.sum_squares(x + i * dim, dim) / static_cast<double>(dim);
                const auto factor = static_cast<float>(1.0 / std::sqrt(mean + static_cast<double>(eps)));
                isa.scale_row(x + i * dim, factor, w, dim, y + i * dim);
            }
        });
    }
    static void add(context& c, float* x, const float* y, std::int64_t n, std::int64_t dim) {
        for_pieces(c.threads, n * dim, 1,
            [&](std::int64_t begin, std::int64_t end) { isa.add(x + begin, y + begin, end - begin); });
    }
    static void gated(
        context& c, gate kind, const float* g, const float* u, std::int64_t n, std::int64_t dim, float* y) {
        for_pieces(c.threads, n * dim, 2, [&](std::int64_t begin, std::int64_t end) {
            isa.gated(kind, g + begin, u + begin, end - begin, y + begin);
        });
    }
    static void softcap(context& c, float* x, std::int64_t n, std::int64_t dim, float cap) {
        for_pieces(c.threads, n * dim, 2,
            [&](std::int64_t begin, std::int64_t end) { isa.softcap(x + begin, end - begin, cap); });
    }
    static void rope(context& c, float* x, std::int64_t n, int n_heads, int head_dim, int half, rope_pairs pairs,
        const float* angles) {
        CHECK(2 * half <= head_dim);
        const std::int64_t width = static_cast<std::int64_t>(n_heads) * head_dim;
        for_pieces(c.threads, n, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i)
                isa.rope_row(x + i * width, n_heads, head_dim, half, pairs, angles + i * 2 * half);
        });
    }

    static void kv_store(context& c, const kv_geometry& kv, std::size_t layer_offset, const attention_seq* seqs,
        int n_seqs, const float* k, const float* v) {
        cpu::kv_store(isa, c, kv, layer_offset, seqs, n_seqs, k, v);
    }
    static void attention(
        context& c, const attention_params& p, const attention_seq* seqs, int n_seqs, const float* q, float* out) {
        cpu::attention(isa, c, p, seqs, n_seqs, q, out);
    }
    static bool all_finite(const float* x, std::int64_t n) { return isa.all_finite(x, n); }

    static constexpr ops table(std::string_view name) {
        return {
            .name = name,
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
    }
};

}  // namespace

const ops avx2_table = on<avx2::kernel_set, avx2::linear>::table("avx2");
const ops avx512_table = on<avx512::kernel_set, avx512::linear>::table("avx512");

}  // namespace troupe::kernels::cpu
