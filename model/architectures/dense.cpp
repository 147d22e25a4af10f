// Tensor names: GGUF specification of the ggml project.
#include "model/architectures/dense.hpp"

#include <cmath>

namespace troupe::model {

void dense_attention::declare(builder& b, const std::string& prefix, const decoder_dims& d) {
    b.matrix(q, prefix + "attn_q.weight", d.q_width(), d.n_embd);
    b.matrix(k, prefix + "attn_k.weight", d.kv_width(), d.n_embd);
    b.matrix(v, prefix + "attn_v.weight", d.kv_width(), d.n_embd);
    b.matrix(o, prefix + "attn_output.weight", d.n_embd, d.q_width());
}

void dense_attention::declare_head_norms(builder& b, const std::string& prefix, const decoder_dims& d) {
    b.vector(q_norm, prefix + "attn_q_norm.weight", d.head_dim);
    b.vector(k_norm, prefix + "attn_k_norm.weight", d.head_dim);
}

void dense_attention::forward(step& s, const dense_rows& r, const decoder_dims& d) const {
    s.linear(r.h, {{&q, q_bias, r.q}, {&k, k_bias, r.k}, {&v, v_bias, r.v}});
    if (q_norm != nullptr) s.norm(r.q, q_norm, d.head_dim, d.eps, r.q, d.n_heads);
    if (k_norm != nullptr) s.norm(r.k, k_norm, d.head_dim, d.eps, r.k, d.n_kv_heads);
    if (positions != nullptr) {
        s.rope(r.q, d.n_heads, d.head_dim, positions->spec, positions->angles);
        s.rope(r.k, d.n_kv_heads, d.head_dim, positions->spec, positions->angles);
    }
    s.attend(slot, r.q, r.k, r.v, r.att);
}

void dense_ffn::declare(builder& b, const std::string& prefix, const decoder_dims& d) {
    b.matrix(gate, prefix + "ffn_gate.weight", d.n_ff, d.n_embd);
    b.matrix(up, prefix + "ffn_up.weight", d.n_ff, d.n_embd);
    b.matrix(down, prefix + "ffn_down.weight", d.n_embd, d.n_ff);
}

void dense_ffn::forward(step& s, const dense_rows& r, const decoder_dims& d, kernels::gate kind) const {
    s.linear(r.h, {{&gate, gate_bias, r.gate}, {&up, up_bias, r.up}});
    s.gated(kind, r.gate, r.up, d.n_ff, r.gate);
    s.linear(r.gate, {{&down, down_bias, r.h}});
}

void dense_layer::declare_post_norms(builder& b, const std::string& prefix, const decoder_dims& d) {
    b.vector(post_attn_norm, prefix + "post_attention_norm.weight", d.n_embd);
    b.vector(post_ffn_norm, prefix + "post_ffw_norm.weight", d.n_embd);
}

dense_decoder::dense_decoder(builder& b) : dims(b.read_dims()) {
    b.embed(embed_, "token_embd.weight", dims.n_vocab, dims.n_embd);
    b.vector(output_norm_, "output_norm.weight", dims.n_embd);
    b.output(output_, dims.n_vocab, dims.n_embd);
    for (float** narrow : {&rows_.x, &rows_.h}) b.activation(*narrow, dims.n_embd);
    for (float** heads : {&rows_.q, &rows_.att}) b.activation(*heads, dims.q_width());
    for (float** heads : {&rows_.k, &rows_.v}) b.activation(*heads, dims.kv_width());
    for (float** wide : {&rows_.gate, &rows_.up}) b.activation(*wide, dims.n_ff);
}

const rotary* dense_decoder::add_rope(builder& b, double default_base, kernels::rope_pairs pairs) {
    const double base = b.number_or("rope.freq_base", default_base, 1.0, 1e12);
    return add_rope(b, b.read_rope(base, b.read_rope_scaling(dims.head_dim), dims.head_dim, pairs));
}

const rotary* dense_decoder::add_rope(builder& b, rope_spec spec) {
    ropes_.push_back({std::move(spec)});  // in place it needs a constructor (clang 14)
    rotary& r = ropes_.back();
    b.activation(r.angles, 2 * r.spec.half());
    return &r;
}

void dense_decoder::add_layers(
    builder& b, double score_scale, double score_cap, std::span<const std::int32_t> window_of_layer) {
    const auto slots =
        b.attention(dims, static_cast<float>(score_scale), static_cast<float>(score_cap), window_of_layer);
    layers.resize(slots.size());
    for (std::size_t i = 0; i < layers.size(); ++i) {
        layers[i].attention.slot = slots[i];
        b.vector(layers[i].attn_norm, layer_prefix(i) + "attn_norm.weight", dims.n_embd);
        b.vector(layers[i].ffn_norm, layer_prefix(i) + "ffn_norm.weight", dims.n_embd);
    }
}

double dense_decoder::usual_scale() const { return 1 / std::sqrt(static_cast<double>(dims.head_dim)); }

double dense_decoder::gemma_scale(std::int32_t layers_of_27b) const {
    if (dims.n_layers != layers_of_27b) return usual_scale();
    return 1 / std::sqrt(static_cast<double>(dims.n_embd) / dims.n_heads);
}

void dense_decoder::forward(step& s) {
    s.embed(embed_, embedding_scale, rows_.x);
    for (const rotary& r : ropes_) s.rope_angles(r.spec, r.angles);
    for (const dense_layer& l : layers) {
        s.norm(rows_.x, l.attn_norm, dims.n_embd, dims.eps, rows_.h);
        l.attention.forward(s, rows_, dims);
        if (&l == &layers.back()) s.keep_logit_rows({{rows_.x, dims.n_embd}, {rows_.att, dims.q_width()}});
        s.linear(rows_.att, {{&l.attention.o, l.attention.o_bias, rows_.h}});
        if (l.post_attn_norm != nullptr) s.norm(rows_.h, l.post_attn_norm, dims.n_embd, dims.eps, rows_.h);
        s.add(rows_.x, rows_.h, dims.n_embd);
        s.norm(rows_.x, l.ffn_norm, dims.n_embd, dims.eps, rows_.h);
        l.ffn.forward(s, rows_, dims, gate);
        if (l.post_ffn_norm != nullptr) s.norm(rows_.h, l.post_ffn_norm, dims.n_embd, dims.eps, rows_.h);
        s.add(rows_.x, rows_.h, dims.n_embd);
        s.layer_done();
    }
    s.head(rows_.x, output_norm_, dims.n_embd, dims.eps, output_, logit_cap);
}

}  // namespace troupe::model
