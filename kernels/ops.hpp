// The op table: what a backend can compute. Pointers, sizes and dtypes only; it knows no model. CPU tables (ref, avx2,
// avx512) exist now; CUDA is to fill the same table, so nothing here assumes that memory is the host's except where
// said.
//
// Conventions. Activations are float32, row-major, one row a token: x[n][cols]. A weight matrix has `rows` outputs and
// `cols` inputs. Every op is batch invariant: the result of a row depends on that row (and its KV) only, never on n, on
// the other rows or on the number of threads. K ascends; a float lane is an output row (or a key), never a piece of K.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/result.hpp"
#include "kernels/pool.hpp"
#include "kernels/types.hpp"

namespace troupe::kernels {

/// Threads and scratch memory an op works with. Scratch is reserved at load (see scratch_bytes): ops allocate nothing.
struct context {
    pool& threads;
    std::span<std::byte> scratch;  ///< 64-byte aligned
};

/// A weight matrix in this table's packed layout.
struct weight {
    dtype type = dtype::f32;
    std::int64_t rows = 0, cols = 0;
    const std::byte* data = nullptr;  ///< 64-byte aligned, packed_bytes(type, rows, cols) long
};

/// Matrices of one shape and type, each packed for itself: the heads of a projection, the experts of a layer.
struct weight_stack {
    dtype type = dtype::f32;
    std::int64_t count = 0, rows = 0, cols = 0;
    const std::byte* data = nullptr;  ///< matrix m starts at data + m * packed_bytes(type, rows, cols)
};

/// y[n][rows] (row stride ldy floats) = x W^T (+ bias[rows] if not null).
struct linear_job {
    const weight* w = nullptr;
    const float* bias = nullptr;
    float* y = nullptr;
    std::int64_t ldy = 0;
};

inline constexpr int kv_block_tokens = 16;
inline constexpr int attention_piece =
    128;  ///< keys a piece; pieces start at absolute multiples (design section 8, rule 8)

/// Experts a router can choose among.
inline constexpr int most_experts = 1024;

/// KV memory of one layer in one block of 16 tokens: K as [kv_head][head_dim][16], then V as [kv_head][16][head_dim],
/// both in `type` (f32, f16, bf16). For q8_0: K and V both as [kv_head][16] rows of head_dim values in file layout
/// blocks of 32, so that a scale covers one token and head only (rule 10).
///
/// With a latent (multi-head latent attention) nothing but K is stored: its first `latent` values are the values too.
/// A key is then {latent, own part}, and kv_store takes the two from different places.
struct kv_geometry {
    dtype type = dtype::f16;
    int n_kv_heads = 0;
    int head_dim = 0;  ///< of a key, and of a value where values are stored
    int latent = 0;    ///< 0: values are stored

    int value_dim() const { return latent > 0 ? latent : head_dim; }
    int own_dim() const { return head_dim - latent; }  ///< of a key, without what it shares with its value
};
std::size_t kv_layer_block_bytes(const kv_geometry& g);  ///< rounded up to 64

/// The rows of one sequence in the batch: n_rows consecutive rows at absolute positions pos, pos + 1, ...
struct attention_seq {
    int first_row = 0;
    int n_rows = 0;
    int pos = 0;
    /// [ceil((pos + n_rows) / 16)] start of each block; null for blocks wholly behind the window. Add layer_offset.
    std::byte* const* blocks = nullptr;
};

struct attention_params {
    kv_geometry kv;
    int n_heads = 0;
    float scale = 1.0f;
    float softcap = 0.0f;          ///< 0: none; else score = cap * tanh(score / cap)
    int window = 0;                ///< 0: none; else position p sees max(0, p - window + 1) .. p
    std::size_t layer_offset = 0;  ///< bytes from a block's start to this layer's K
};

enum class rope_pairs : std::uint8_t { adjacent, halves };  ///< (2i, 2i+1) as in llama GGUFs; (i, i + rot/2) as in NeoX

enum class gate : std::uint8_t { silu, gelu_tanh };

/// How a mixture chooses: softmax over all experts, the n_used largest (ties to the lower id), their probabilities
/// divided by their sum if `normalize`, times `scale`.
struct router_params {
    int n_experts = 0, n_used = 0;
    bool normalize = false;
    float scale = 1.0f;
};

/// What route() finds out. A slot is one meeting of a row with an expert; the slots of an expert are consecutive, its
/// rows ascend. Memory is the caller's.
struct routing {
    int n_experts = 0, n_used = 0;
    float* weight = nullptr;        ///< [n][n_used], by rank: the largest first
    std::int32_t* slot = nullptr;   ///< [n][n_used], by rank
    std::int32_t* row = nullptr;    ///< [n * n_used]: of each slot
    std::int32_t* first = nullptr;  ///< [n_experts + 1]: slots of expert e are first[e] .. first[e + 1] - 1
};

/// y[slot][rows] = the slot's expert times the slot's x.
struct expert_job {
    const weight_stack* w = nullptr;
    float* y = nullptr;
};

enum class expert_input : std::uint8_t { rows, slots };  ///< x[row of the slot] or x[slot]

/// The largest calls that scratch memory must do for.
struct scratch_need {
    std::int64_t max_rows = 1, max_cols = 1;
    int n_heads = 1, head_dim = 64, n_threads = 1;
    std::int64_t stack_values = 0;  ///< x values a linear_heads (n * count * cols) or linear_experts call reads
    std::int64_t stack_count = 0;   ///< matrices of a stack
};

struct ops {
    std::string_view name;  ///< "ref", "avx2", "avx512"

    // -- weights -------------------------------------------------------------------------------------------------
    std::size_t (*packed_bytes)(dtype type, std::int64_t rows, std::int64_t cols);
    /// File layout -> packed layout. src may be unaligned (a memory map).
    void (*pack)(pool& threads, dtype type, std::int64_t rows, std::int64_t cols, const std::byte* src, std::byte* dst);

    // -- memory --------------------------------------------------------------------------------------------------
    std::size_t (*scratch_bytes)(const scratch_need& need);

    // -- ops on rows ---------------------------------------------------------------------------------------------
    /// y[i] = scale * row ids[i] of an embedding matrix in FILE layout (rows of `cols` values).
    void (*embed)(context& c, dtype type, std::int64_t cols, const std::byte* table, const std::int32_t* ids,
        std::int64_t n, float scale, float* y);
    /// y[i][j] = x[i][j] * w[j] / sqrt(mean(x[i]^2) + eps). y may be x. w may be null (all ones).
    void (*rms_norm)(context& c, const float* x, const float* w, std::int64_t n, std::int64_t dim, float eps, float* y);
    /// x += y, n * dim values.
    void (*add)(context& c, float* x, const float* y, std::int64_t n, std::int64_t dim);
    /// y[i][j] = activation(g[i][j]) * u[i][j]; y may be g or u.
    void (*gated)(context& c, gate kind, const float* g, const float* u, std::int64_t n, std::int64_t dim, float* y);
    /// x = cap * tanh(x / cap).
    void (*softcap)(context& c, float* x, std::int64_t n, std::int64_t dim, float cap);
    /// angles[i] = magnitude * {cos[half], sin[half]} of pos[i] * inv_freq[j], computed in double, rounded once.
    void (*rope_angles)(context& c, const double* inv_freq, int half, double magnitude, const std::int32_t* pos,
        std::int64_t n, float* angles);
    /// Rotates the first 2 * half values of every head of x[n][n_heads * head_dim] in place.
    void (*rope)(context& c, float* x, std::int64_t n, int n_heads, int head_dim, int half, rope_pairs pairs,
        const float* angles);
    /// All jobs share x[n][cols]; for quantized weights x is quantized once.
    void (*linear)(context& c, const float* x, std::int64_t n, std::int64_t cols, const linear_job* jobs, int n_jobs);

    /// One matrix a head: y(i, h) = matrix h times x(i, h) for i < n, h < w.count. Row (i, h) begins at
    /// x + (i * w.count + h) * ldx, and likewise in y.
    void (*linear_heads)(context& c, const float* x, std::int64_t ldx, std::int64_t n, const weight_stack& w, float* y,
        std::int64_t ldy);
    /// y[i][j] = x[i][j] for j < dim; rows are ldx and ldy floats apart and do not overlap.
    void (*copy_rows)(
        context& c, const float* x, std::int64_t ldx, std::int64_t n, std::int64_t dim, float* y, std::int64_t ldy);

    // -- mixtures of experts (design section 8, rule 11) -----------------------------------------------------------
    /// Chooses experts for n rows of logits[n][n_experts]. A row whose logits are not finite gets weights that are not.
    void (*route)(context& c, const router_params& p, const float* logits, std::int64_t n, const routing& r);
    /// Only experts that were chosen are read, each once. All jobs share x.
    void (*linear_experts)(
        context& c, const float* x, expert_input input, const routing& r, const expert_job* jobs, int n_jobs);
    /// y[i] = sum by ascending rank of weight[i][rank] * parts[slot[i][rank]]; rows of dim values.
    void (*combine)(context& c, const routing& r, const float* parts, std::int64_t n, std::int64_t dim, float* y);

    // -- attention -----------------------------------------------------------------------------------------------
    /// Writes k, v [rows][n_kv_heads * head_dim] of every sequence's rows into its blocks, rounded to the KV type. With
    /// a latent: k [rows][n_kv_heads * own_dim], v [rows][n_kv_heads * latent].
    void (*kv_store)(context& c, const kv_geometry& kv, std::size_t layer_offset, const attention_seq* seqs, int n_seqs,
        const float* k, const float* v);
    /// Causal grouped-query attention over the blocks (after kv_store). q [rows][n_heads * head_dim],
    /// out [rows][n_heads * value_dim].
    void (*attention)(
        context& c, const attention_params& p, const attention_seq* seqs, int n_seqs, const float* q, float* out);

    // -- checks --------------------------------------------------------------------------------------------------
    /// True if all n values are finite.
    bool (*all_finite)(const float* x, std::int64_t n);
};

/// The table for a name ("auto", "ref", "avx2", "avx512"); "auto" takes the best this processor runs. An unknown name
/// or one the processor lacks is errc::usage.
result<const ops*> table(std::string_view name);
/// Every table this processor can run, ref first.
std::span<const ops* const> available_tables();

}  // namespace troupe::kernels
