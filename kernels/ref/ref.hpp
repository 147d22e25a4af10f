// The oracle table: scalar, double accumulators, written to be read. Fast tables are tested against it.
#pragma once

#include "kernels/ops.hpp"

namespace troupe::kernels::ref {

extern const ops table;

std::size_t packed_bytes(dtype type, std::int64_t rows, std::int64_t cols);
void pack(pool& threads, dtype type, std::int64_t rows, std::int64_t cols, const std::byte* src, std::byte* dst);
void linear(context& c, const float* x, std::int64_t n, std::int64_t cols, const linear_job* jobs, int n_jobs);
std::size_t linear_scratch_bytes(std::int64_t max_cols, int n_threads);

void linear_heads(
    context& c, const float* x, std::int64_t ldx, std::int64_t n, const weight_stack& w, float* y, std::int64_t ldy);
void linear_experts(
    context& c, const float* x, expert_input input, const routing& r, const expert_job* jobs, int n_jobs);
void combine(context& c, const routing& r, const float* parts, std::int64_t n, std::int64_t dim, float* y);

void kv_store(context& c, const kv_geometry& kv, std::size_t layer_offset, const attention_seq* seqs, int n_seqs,
    const float* k, const float* v);
void attention(
    context& c, const attention_params& p, const attention_seq* seqs, int n_seqs, const float* q, float* out);
std::size_t attention_scratch_bytes(int n_heads, int head_dim, int n_threads);

}  // namespace troupe::kernels::ref
