// Family "llama": Llama 1-3, SmolLM2, Mistral and relatives. RMS norms before attention and FFN, grouped queries,
// rotary positions on adjacent pairs (GGUF stores q and k rows permuted for it), SwiGLU, own or tied output matrix.
// Tensor names and keys: GGUF specification of the ggml project.
#include <cmath>

#include "model/architectures/architecture.hpp"
#include "model/architectures/families.hpp"

namespace troupe::model {
namespace {

struct layer {
    const float *attn_norm = nullptr, *ffn_norm = nullptr;                                   // [n_embd]
    kernels::weight q, k, v, o;                                                              // o: [n_embd][q_width]
    const float *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr, *o_bias = nullptr;  // null in most files
    kernels::weight gate, up, down;
    attention_slot attention;
};

class llama final : public network {
 public:
    explicit llama(builder& b);
    void forward(step& s) override;

 private:
    void declare_layer(builder& b, std::size_t i);

    decoder_dims d_;
    rope_spec rope_;
    embedding embed_;
    std::vector<layer> layers_;
    const float* output_norm_ = nullptr;
    kernels::weight output_;
    // Activations, a row a token: residual, normed or projected, q, k, v, attention, FFN halves, cosines and sines.
    float *x_, *h_, *q_, *k_, *v_, *att_, *gate_, *up_, *angles_;
};

llama::llama(builder& b) : d_(b.read_dims()) {
    if (b.integer_or("expert_count", 0, 0, 1 << 16) > 0)
        b.refuse(errc::model_unsupported, "llama models with experts are not built", "llama.expert_count");
    rope_ = b.read_rope(b.number_or("rope.freq_base", 1e4, 1.0, 1e12), b.read_rope_scaling(d_.head_dim), d_.head_dim,
        kernels::rope_pairs::adjacent);
    b.embed(embed_, "token_embd.weight", d_.n_vocab, d_.n_embd);
    b.vector(output_norm_, "output_norm.weight", d_.n_embd);
    b.output(output_, d_.n_vocab, d_.n_embd);

    const auto n_layers = static_cast<std::size_t>(d_.n_layers);
    const std::vector<std::int32_t> no_windows(n_layers, 0);
    const auto slots =
        b.attention(d_, static_cast<float>(1 / std::sqrt(static_cast<double>(d_.head_dim))), 0, no_windows);
    layers_.resize(n_layers);
    for (std::size_t i = 0; i < n_layers; ++i) {
        layers_[i].attention = slots[i];
        declare_layer(b, i);
    }
    for (float** narrow : {&x_, &h_}) b.activation(*narrow, d_.n_embd);
    for (float** heads : {&q_, &att_}) b.activation(*heads, d_.q_width());
    for (float** heads : {&k_, &v_}) b.activation(*heads, d_.kv_width());
    for (float** wide : {&gate_, &up_}) b.activation(*wide, d_.n_ff);
    b.activation(angles_, 2 * rope_.half());
}

void llama::declare_layer(builder& b, std::size_t i) {
    layer& l = layers_[i];
    const std::string p = layer_prefix(i);
    b.vector(l.attn_norm, p + "attn_norm.weight", d_.n_embd);
    b.matrix(l.q, p + "attn_q.weight", d_.q_width(), d_.n_embd);
    b.matrix(l.k, p + "attn_k.weight", d_.kv_width(), d_.n_embd);
    b.matrix(l.v, p + "attn_v.weight", d_.kv_width(), d_.n_embd);
    b.matrix(l.o, p + "attn_output.weight", d_.n_embd, d_.q_width());
    b.optional_vector(l.q_bias, p + "attn_q.bias", d_.q_width());
    b.optional_vector(l.k_bias, p + "attn_k.bias", d_.kv_width());
    b.optional_vector(l.v_bias, p + "attn_v.bias", d_.kv_width());
    b.optional_vector(l.o_bias, p + "attn_output.bias", d_.n_embd);
    b.vector(l.ffn_norm, p + "ffn_norm.weight", d_.n_embd);
    b.matrix(l.gate, p + "ffn_gate.weight", d_.n_ff, d_.n_embd);
    b.matrix(l.up, p + "ffn_up.weight", d_.n_ff, d_.n_embd);
    b.matrix(l.down, p + "ffn_down.weight", d_.n_embd, d_.n_ff);
}

void llama::forward(step& s) {
    s.embed(embed_, 1.0f, x_);
    s.rope_angles(rope_, angles_);
    for (const layer& l : layers_) {
        s.norm(x_, l.attn_norm, d_.n_embd, d_.eps, h_);
        s.linear(h_, {{&l.q, l.q_bias, q_}, {&l.k, l.k_bias, k_}, {&l.v, l.v_bias, v_}});
        s.rope(q_, d_.n_heads, d_.head_dim, rope_, angles_);
        s.rope(k_, d_.n_kv_heads, d_.head_dim, rope_, angles_);
        s.attend(l.attention, q_, k_, v_, att_);
        if (&l == &layers_.back()) s.keep_logit_rows({{x_, d_.n_embd}, {att_, d_.q_width()}});
        s.linear(att_, {{&l.o, l.o_bias, h_}});
        s.add(x_, h_, d_.n_embd);
        s.norm(x_, l.ffn_norm, d_.n_embd, d_.eps, h_);
        s.linear(h_, {{&l.gate, nullptr, gate_}, {&l.up, nullptr, up_}});
        s.gated(kernels::gate::silu, gate_, up_, d_.n_ff, gate_);
        s.linear(gate_, {{&l.down, nullptr, h_}});
        s.add(x_, h_, d_.n_embd);
        s.layer_done();
    }
    s.head(x_, output_norm_, d_.n_embd, d_.eps, output_);
}

}  // namespace

const architecture llama_architecture{
    "llama", [](builder& b) -> std::unique_ptr<network> { return std::make_unique<llama>(b); }};

}  // namespace troupe::model
