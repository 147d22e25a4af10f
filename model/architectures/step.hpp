// What a family composes its forward pass from: the op table bound to the rows of one step. No family sees a backend.
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "kernels/ops.hpp"
#include "model/architectures/rope.hpp"

namespace troupe::model {

/// Token embeddings stay in the file's layout and map: only the rows a step needs are read.
struct embedding {
    kernels::dtype type{};
    std::int64_t cols = 0;
    const std::byte* rows = nullptr;
};

/// Where a layer keeps its keys and values, and how it scores them.
struct attention_slot {
    std::size_t group = 0;  ///< of kv_layout
    kernels::attention_params params;
};

class step {
 public:
    struct rows_view {
        std::span<const std::int32_t> ids;                      ///< token of each row
        std::span<const std::int32_t> pos;                      ///< absolute position of each row
        std::span<const std::int32_t> logit_rows, hidden_rows;  ///< model::batch
        std::span<const kernels::attention_seq* const> seqs;    ///< one array a layer group
        int n_seqs = 0;
        float* logits = nullptr;  ///< [logit_rows.size()][n_vocab]
        float* hidden = nullptr;  ///< [hidden_rows.size()][n_embd]
        std::atomic<std::uint64_t>* progress = nullptr;
    };
    struct slice {
        float* data;
        std::int64_t width;
    };

    step(const kernels::ops& ops, kernels::context& context, const rows_view& rows)
        : ops_(ops), context_(context), rows_(rows), n_(static_cast<std::int64_t>(rows.ids.size())) {}

    void embed(const embedding& e, float scale, float* y);
    void rope_angles(const rope_spec& rope, float* angles);
    /// RMS norm of rows of `dim` values; `per_row` of them a token (heads).
    void norm(const float* x, const float* w, std::int64_t dim, float eps, float* y, std::int64_t per_row = 1);
    /// All jobs read x[n][cols]; y is dense.
    void linear(const float* x, std::initializer_list<kernels::linear_job> jobs);
    void rope(float* x, int n_heads, int head_dim, const rope_spec& rope, const float* angles);
    /// One matrix a head; heads are ldx and ldy floats apart.
    void linear_heads(const float* x, std::int64_t ldx, const kernels::weight_stack& w, float* y, std::int64_t ldy);
    /// Copies the first dim of every ldx values to the first of every ldy; `per_row` times a row.
    void copy(const float* x, std::int64_t ldx, std::int64_t dim, float* y, std::int64_t ldy, std::int64_t per_row = 1);
    void route(const kernels::router_params& p, const float* logits, const kernels::routing& r);
    void experts(const float* x, kernels::expert_input input, const kernels::routing& r,
        std::initializer_list<kernels::expert_job> jobs);
    /// y = weighted sum of what a row's experts made of it.
    void combine(const kernels::routing& r, const float* parts, std::int64_t dim, float* y);
    /// Stores k and v, then attends over everything stored so far.
    void attend(const attention_slot& slot, const float* q, const float* k, const float* v, float* out);
    void gated(kernels::gate kind, const float* g, const float* u, std::int64_t dim, float* y);
    void add(float* x, const float* y, std::int64_t dim);

    /// From here on only the rows whose logits or hidden state are wanted: moves them to the front of every slice.
    /// Called in the last layer once its K and V are stored.
    void keep_logit_rows(std::initializer_list<slice> slices);
    /// Final norm on the kept rows, into the caller's hidden states or, through the output matrix, into their logits.
    /// `cap` 0: none.
    void head(float* x, const float* w, std::int64_t dim, float eps, const kernels::weight& output, float cap = 0.0f);
    /// Tells the watcher that the step moves.
    void layer_done();

 private:
    std::int64_t n_kept() const {
        return static_cast<std::int64_t>(rows_.logit_rows.size() + rows_.hidden_rows.size());
    }
    template <class F> void each_kept(F f) const;
    void take_hidden(float* x, std::int64_t dim);

    const kernels::ops& ops_;
    kernels::context& context_;
    rows_view rows_;
    std::int64_t n_;  ///< rows still carried
};

}  // namespace troupe::model
