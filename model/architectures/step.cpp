// Thin: adds row count, threads and scratch to each op.
#include "model/architectures/step.hpp"

#include <array>
#include <cstring>

#include "core/check.hpp"

namespace troupe::model {

void step::embed(const embedding& e, float scale, float* y) {
    ops_.embed(context_, e.type, e.cols, e.rows, rows_.ids.data(), n_, scale, y);
}

void step::rope_angles(const rope_spec& rope, float* angles) {
    ops_.rope_angles(context_, rope.inv_freq.data(), rope.half(), rope.magnitude, rows_.pos.data(), n_, angles);
}

void step::norm(const float* x, const float* w, std::int64_t dim, float eps, float* y, std::int64_t per_row) {
    if (n_ > 0) ops_.rms_norm(context_, x, w, n_ * per_row, dim, eps, y);
}

void step::linear(const float* x, std::initializer_list<kernels::linear_job> jobs) {
    constexpr std::size_t most = 4;
    CHECK(jobs.size() >= 1 && jobs.size() <= most);
    if (n_ == 0) return;
    std::array<kernels::linear_job, most> dense;
    std::size_t count = 0;
    for (kernels::linear_job job : jobs) {
        if (job.ldy == 0) job.ldy = job.w->rows;
        dense[count++] = job;
    }
    ops_.linear(context_, x, n_, dense[0].w->cols, dense.data(), static_cast<int>(count));
}

void step::rope(float* x, int n_heads, int head_dim, const rope_spec& rope, const float* angles) {
    if (n_ > 0) ops_.rope(context_, x, n_, n_heads, head_dim, rope.half(), rope.pairs, angles);
}

void step::linear_heads(const float* x, std::int64_t ldx, const kernels::weight_stack& w, float* y, std::int64_t ldy) {
    if (n_ > 0) ops_.linear_heads(context_, x, ldx, n_, w, y, ldy);
}

void step::copy(const float* x, std::int64_t ldx, std::int64_t dim, float* y, std::int64_t ldy, std::int64_t per_row) {
    ops_.copy_rows(context_, x, ldx, n_ * per_row, dim, y, ldy);
}

void step::route(const kernels::router_params& p, const float* logits, const kernels::routing& r) {
    if (n_ > 0) ops_.route(context_, p, logits, n_, r);
}

void step::experts(const float* x, kernels::expert_input input, const kernels::routing& r,
    std::initializer_list<kernels::expert_job> jobs) {
    if (n_ > 0) ops_.linear_experts(context_, x, input, r, jobs.begin(), static_cast<int>(jobs.size()));
}

void step::combine(const kernels::routing& r, const float* parts, std::int64_t dim, float* y) {
    if (n_ > 0) ops_.combine(context_, r, parts, n_, dim, y);
}

void step::attend(const attention_slot& slot, const float* q, const float* k, const float* v, float* out) {
    const kernels::attention_seq* seqs = rows_.seqs[slot.group];
    ops_.kv_store(context_, slot.params.kv, slot.params.layer_offset, seqs, rows_.n_seqs, k, v);
    ops_.attention(context_, slot.params, seqs, rows_.n_seqs, q, out);
}

void step::gated(kernels::gate kind, const float* g, const float* u, std::int64_t dim, float* y) {
    if (n_ > 0) ops_.gated(context_, kind, g, u, n_, dim, y);
}

void step::add(float* x, const float* y, std::int64_t dim) {
    if (n_ > 0) ops_.add(context_, x, y, n_, dim);
}

/// f(row of the step, is it a hidden one) for the kept rows, ascending.
template <class F> void step::each_kept(F f) const {
    const auto& logits = rows_.logit_rows;
    const auto& hidden = rows_.hidden_rows;
    for (std::size_t l = 0, h = 0; l + h < logits.size() + hidden.size();) {
        const bool is_hidden = l == logits.size() || (h < hidden.size() && hidden[h] < logits[l]);
        f(is_hidden ? hidden[h++] : logits[l++], is_hidden);
    }
}

void step::keep_logit_rows(std::initializer_list<slice> slices) {
    CHECK(n_ == static_cast<std::int64_t>(rows_.ids.size()), "rows are dropped once");
    n_ = n_kept();
    // Ascending, so a row never lands on one that is still to be moved.
    for (const slice& s : slices) {
        float* to = s.data;
        each_kept([&](std::int64_t row, bool) {
            const float* from = s.data + row * s.width;
            if (from != to) std::memcpy(to, from, static_cast<std::size_t>(s.width) * sizeof(float));
            to += s.width;
        });
    }
}

/// Hands out the hidden states; the rows whose logits are wanted move to the front.
void step::take_hidden(float* x, std::int64_t dim) {
    const auto bytes = static_cast<std::size_t>(dim) * sizeof(float);
    float *from = x, *logit_row = x, *hidden = rows_.hidden;
    each_kept([&](std::int64_t, bool is_hidden) {
        float*& to = is_hidden ? hidden : logit_row;
        if (from != to) std::memcpy(to, from, bytes);
        to += dim;
        from += dim;
    });
    n_ = static_cast<std::int64_t>(rows_.logit_rows.size());
}

void step::head(float* x, const float* w, std::int64_t dim, float eps, const kernels::weight& output, float cap) {
    if (n_ == 0) return;
    CHECK(n_ == n_kept(), "keep_logit_rows comes first");
    norm(x, w, dim, eps, x);
    if (!rows_.hidden_rows.empty()) take_hidden(x, dim);
    if (n_ == 0) return;
    linear(x, {{&output, nullptr, rows_.logits, output.rows}});
    if (cap > 0) ops_.softcap(context_, rows_.logits, n_, output.rows, cap);
}

void step::layer_done() {
    if (rows_.progress != nullptr) rows_.progress->fetch_add(1, std::memory_order_relaxed);
}

}  // namespace troupe::model
