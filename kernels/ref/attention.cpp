// Reference attention: plain softmax in double over every visible key, read back from the KV type.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.hpp"
#include "kernels/kv_layout.hpp"
#include "kernels/ref/ref.hpp"

namespace troupe::kernels::ref {
namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// One thread's scratch: sums [head_dim] in double, then one key or value [head_dim] in float.
std::size_t thread_bytes(int head_dim) {
    return aligned(static_cast<std::size_t>(head_dim) * (sizeof(double) + sizeof(float)));
}

struct reader {
    const attention_params& p;
    const attention_seq& seq;
    int kv_head;

    const std::byte* layer(int position) const { return seq.blocks[position / kv_block_tokens] + p.layer_offset; }
    void key(int position, float* k) const {
        kv_read_token(p.kv, layer(position), kv_head, position % kv_block_tokens, k, nullptr);
    }
    void value(int position, float* v) const {
        kv_read_token(p.kv, layer(position), kv_head, position % kv_block_tokens, nullptr, v);
    }
};

double score(const attention_params& p, const float* q, const float* k) {
    double sum = 0;
    for (int d = 0; d < p.kv.head_dim; ++d) sum += static_cast<double>(q[d]) * k[d];
    sum *= p.scale;
    return p.softcap > 0 ? p.softcap * std::tanh(sum / p.softcap) : sum;
}

/// Softmax over [first, last] by a running maximum: at a new maximum the sums so far are scaled down, which costs one
/// rounding in double and keeps the scratch free of the context's length.
void attend(const reader& r, int first, int last, const float* q, double* sums, float* row, float* out) {
    const int dim = r.p.kv.value_dim();
    std::fill(sums, sums + dim, 0.0);
    double highest = -std::numeric_limits<double>::infinity(), total = 0;
    for (int position = first; position <= last; ++position) {
        r.key(position, row);
        const double s = score(r.p, q, row);
        if (s > highest) {
            const double shrink = std::exp(highest - s);
            total *= shrink;
            for (int d = 0; d < dim; ++d) sums[d] *= shrink;
            highest = s;
        }
        const double weight = std::exp(s - highest);
        r.value(position, row);
        total += weight;
        for (int d = 0; d < dim; ++d) sums[d] += weight * row[d];
    }
    for (int d = 0; d < dim; ++d) out[d] = static_cast<float>(sums[d] / total);
}

}  // namespace

void kv_store(context& c, const kv_geometry& kv, std::size_t layer_offset, const attention_seq* seqs, int n_seqs,
    const float* k, const float* v) {
    kv_check(kv);
    c.threads.run(n_seqs, [&](std::int64_t s, int) {
        const attention_seq& seq = seqs[s];
        for (int i = 0; i < seq.n_rows; ++i) {
            const int position = seq.pos + i;
            std::byte* layer = seq.blocks[position / kv_block_tokens] + layer_offset;
            const std::int64_t row = static_cast<std::int64_t>(seq.first_row + i) * kv.n_kv_heads;
            kv_write_token(kv, layer, position % kv_block_tokens, k + row * kv.own_dim(), v + row * kv.value_dim());
        }
    });
}

std::size_t attention_scratch_bytes(int, int head_dim, int n_threads) {
    return static_cast<std::size_t>(n_threads) * thread_bytes(head_dim);
}

void attention(
    context& c, const attention_params& p, const attention_seq* seqs, int n_seqs, const float* q, float* out) {
    kv_check(p.kv);
    CHECK(p.n_heads % p.kv.n_kv_heads == 0);
    CHECK(c.scratch.size() >= attention_scratch_bytes(p.n_heads, p.kv.head_dim, c.threads.size()), "scratch");
    const int group = p.n_heads / p.kv.n_kv_heads, dim = p.kv.head_dim;
    for (int s = 0; s < n_seqs; ++s) {
        const attention_seq& seq = seqs[s];
        c.threads.run(static_cast<std::int64_t>(seq.n_rows) * p.n_heads, [&](std::int64_t task, int thread) {
            const int row = static_cast<int>(task / p.n_heads), head = static_cast<int>(task % p.n_heads);
            const int last = seq.pos + row;
            const int first = p.window > 0 ? std::max(0, last - p.window + 1) : 0;
            auto* sums =
                reinterpret_cast<double*>(c.scratch.data() + static_cast<std::size_t>(thread) * thread_bytes(dim));
            const std::int64_t at = static_cast<std::int64_t>(seq.first_row + row) * p.n_heads + head;
            attend({p, seq, head / group}, first, last, q + at * dim, sums, reinterpret_cast<float*>(sums + dim),
                out + at * p.kv.value_dim());
        });
    }
}

}  // namespace troupe::kernels::ref
