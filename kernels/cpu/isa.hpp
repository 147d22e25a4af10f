// What one instruction set provides to the CPU tables: inner loops over raw pointers, no threads, no checks, no
// templates of the standard library. Each is compiled from the same *-inl.hpp sources and gives the same bits on every
// set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/ops.hpp"

namespace troupe::kernels {

inline constexpr int attention_max_head_dim = 1024;  ///< values of a tile of pairs are summed on the stack

/// One piece of 128 keys of one kv head, against n_rows consecutive rows of one sequence and the `group` query heads of
/// that kv head. A (row, head) combination is a "pair": pair = row * group + head. Every pair must see a key of the
/// piece.
struct piece_args {
    const float* q = nullptr;     ///< first row, first head of the group; heads are head_dim apart
    std::int64_t row_stride = 0;  ///< floats from row to row of q
    std::int64_t out_stride = 0;  ///< and of out, whose heads are value_dim apart
    int n_rows = 0;
    int group = 0;
    int head_dim = 0;
    int value_dim = 0;
    int first = 0;   ///< position of the first row minus the position of the piece's first key; >= 0
    int window = 0;  ///< 0: none
    float scale = 1.0f, softcap = 0.0f;
    dtype type = dtype::f32;  ///< of k and v below: f32, f16, bf16
    /// Blocks of 16 keys: k[b] is [head_dim][16], v[b] is [16][v_stride], readable up to the
    /// next multiple of 16 of value_dim. Null where no row sees a key of the block.
    const std::byte* k[attention_piece / kv_block_tokens] = {};
    const std::byte* v[attention_piece / kv_block_tokens] = {};
    int v_stride = 0;  ///< values
};

/// Softmax over part of the keys: maximum, sum of exponentials, weighted values before the division. One per pair.
struct softmax_state {
    float* max = nullptr;  ///< [pairs]
    float* sum = nullptr;  ///< [pairs]
};

struct isa_kernels {
    double (*sum_squares)(const float* x, std::int64_t n);
    /// y = x * factor * w; w may be null (ones). y may be x.
    void (*scale_row)(const float* x, float factor, const float* w, std::int64_t n, float* y);
    void (*add)(float* x, const float* y, std::int64_t n);
    /// y += factor * x, rounded once.
    void (*add_scaled)(float* y, const float* x, float factor, std::int64_t n);
    void (*gated)(gate kind, const float* g, const float* u, std::int64_t n, float* y);
    void (*softcap)(float* x, std::int64_t n, float cap);
    /// One row of n_heads heads; angles = {cos[half], sin[half]}.
    void (*rope_row)(float* x, int n_heads, int head_dim, int half, rope_pairs pairs, const float* angles);
    bool (*all_finite)(const float* x, std::int64_t n);
    void (*exp)(const float* x, std::int64_t n, float* y);
    void (*tanh)(const float* x, std::int64_t n, float* y);

    void (*narrow_half)(const float* x, std::int64_t n, std::uint16_t* y);
    /// f16, bf16 or f32 values to float.
    void (*widen)(dtype type, const std::byte* x, std::int64_t n, float* y);
    /// q8_0 rows [16][head_dim] of one head's block to [16][stride] (values), and transposed to [head_dim][16] (keys).
    void (*widen_q8_values)(const std::byte* rows, int head_dim, int stride, float* y);
    void (*widen_q8_keys)(const std::byte* rows, int head_dim, float* y);

    /// y[token][d] = keys[d][token] for 16 tokens and d < dim; tokens are `stride` apart.
    void (*values_of_keys)(const float* keys, int dim, int stride, float* y);

    /// The piece's own results: state [n_rows * group], o [n_rows * group][o_stride], o_stride at
    /// least the next multiple of 16 of value_dim.
    void (*piece_store)(const piece_args& a, softmax_state s, float* o, std::int64_t o_stride);
    /// The same, each pair at once merged into its state and its running values in `out`.
    void (*piece_merge)(const piece_args& a, softmax_state s, float* out);
    /// Merges one pair's piece (max, sum, o[dim]) into its state; the only place where pieces meet.
    void (*merge)(float max, float sum, const float* o, int dim, float* state_max, float* state_sum, float* out);
};

namespace avx2 {
extern const isa_kernels kernel_set;
}
namespace avx512 {
extern const isa_kernels kernel_set;
}

}  // namespace troupe::kernels
