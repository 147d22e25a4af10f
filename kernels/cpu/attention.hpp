// Paged attention and KV writes of the CPU tables: which thread computes which piece; the arithmetic is the ISA's.
#pragma once

#include "kernels/cpu/isa.hpp"
#include "kernels/ops.hpp"

namespace troupe::kernels::cpu {

void kv_store(const isa_kernels& isa, context& c, const kv_geometry& kv, std::size_t layer_offset,
    const attention_seq* seqs, int n_seqs, const float* k, const float* v);

void attention(const isa_kernels& isa, context& c, const attention_params& p, const attention_seq* seqs, int n_seqs,
    const float* q, float* out);

/// Scratch either of them needs for at most max_rows rows (and so at most max_rows sequences).
std::size_t attention_scratch_bytes(std::int64_t max_rows, int n_heads, int head_dim, int n_threads);

}  // namespace troupe::kernels::cpu
