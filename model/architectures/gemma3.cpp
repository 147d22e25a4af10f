// Family "gemma3" (text): five layers with a sliding window for one with full attention, each kind with its own rotary
// base, RMS norms before and after attention and FFN and on every q and k head, tanh GELU gate, embeddings scaled by
// sqrt(n_embd), tied output matrix. GGUF stores norm weights with the 1 already added.
// Tensor names and keys: GGUF specification of the ggml project; the model: Gemma 3 technical report.
#include <cmath>

#include "model/architectures/architecture.hpp"
#include "model/architectures/families.hpp"

namespace troupe::model {
namespace {

struct layer {
    const float *attn_norm = nullptr, *post_attn_norm = nullptr, *ffn_norm = nullptr,
                *post_ffn_norm = nullptr;              // [n_embd]
    const float *q_norm = nullptr, *k_norm = nullptr;  // [head_dim]
    kernels::weight q, k, v, o;
    kernels::weight gate, up, down;
    bool local = false;  ///< sliding window and local rotary base
    attention_slot attention;
};

class gemma3 final : public network {
 public:
    explicit gemma3(builder& b);
    void forward(step& s) override;

 private:
    void read_ropes(builder& b);
    void place_layers(builder& b);
    void declare_layer(builder& b, std::size_t i);
    void attention_block(step& s, const layer& l, bool last);
    void ffn_block(step& s, const layer& l);

    decoder_dims d_;
    rope_spec global_rope_, local_rope_;
    embedding embed_;
    std::vector<layer> layers_;
    const float* output_norm_ = nullptr;
    kernels::weight output_;
    float logit_cap_ = 0;
    // Activations, a row a token: residual, normed or projected, q, k, v, attention, FFN halves, cosines and sines.
    float *x_, *h_, *q_, *k_, *v_, *att_, *gate_, *up_, *global_angles_, *local_angles_;
};

gemma3::gemma3(builder& b) : d_(b.read_dims()) {
    read_ropes(b);
    logit_cap_ = static_cast<float>(b.number_or("final_logit_softcapping", 0, 0, 1e6));
    b.embed(embed_, "token_embd.weight", d_.n_vocab, d_.n_embd);
    b.vector(output_norm_, "output_norm.weight", d_.n_embd);
    b.output(output_, d_.n_vocab, d_.n_embd);
    place_layers(b);
    for (std::size_t i = 0; i < layers_.size(); ++i) declare_layer(b, i);
    for (float** narrow : {&x_, &h_}) b.activation(*narrow, d_.n_embd);
    for (float** heads : {&q_, &att_}) b.activation(*heads, d_.q_width());
    for (float** heads : {&k_, &v_}) b.activation(*heads, d_.kv_width());
    for (float** wide : {&gate_, &up_}) b.activation(*wide, d_.n_ff);
    for (float** angles : {&global_angles_, &local_angles_}) b.activation(*angles, 2 * global_rope_.half());
}

void gemma3::read_ropes(builder& b) {
    const auto halves = kernels::rope_pairs::halves;
    const double base = b.number_or("rope.freq_base", 1e6, 1.0, 1e12);
    global_rope_ = b.read_rope(base, b.read_rope_scaling(d_.head_dim), d_.head_dim, halves);
    // Local layers see a window only, so they were never stretched: base 10,000 unless the file says so, no factor.
    local_rope_ = b.read_rope(b.number_or("rope.freq_base_swa", 1e4, 1.0, 1e12), {}, d_.head_dim, halves);
}

void gemma3::place_layers(builder& b) {
    const auto window = static_cast<std::int32_t>(b.integer("attention.sliding_window", 1, 1 << 28));
    const std::int64_t pattern = b.integer_or("attention.sliding_window_pattern", 6, 1, 1024);
    layers_.resize(static_cast<std::size_t>(d_.n_layers));
    std::vector<std::int32_t> windows;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
        layers_[i].local = (static_cast<std::int64_t>(i) + 1) % pattern != 0;
        windows.push_back(layers_[i].local ? window : 0);
    }
    // 27B (62 layers) scales by the width a head would have without key_length; files carry no key for it.
    const bool is_27b = d_.n_layers == 62;
    const double query_dim = is_27b ? static_cast<double>(d_.n_embd) / d_.n_heads : d_.head_dim;
    const double scale = b.number_or("attention.scale", 1 / std::sqrt(query_dim), 1e-6, 1e3);
    const auto slots = b.attention(d_, static_cast<float>(scale), 0, windows);
    for (std::size_t i = 0; i < layers_.size(); ++i) layers_[i].attention = slots[i];
}

void gemma3::declare_layer(builder& b, std::size_t i) {
    layer& l = layers_[i];
    const std::string p = layer_prefix(i);
    b.vector(l.attn_norm, p + "attn_norm.weight", d_.n_embd);
    b.matrix(l.q, p + "attn_q.weight", d_.q_width(), d_.n_embd);
    b.matrix(l.k, p + "attn_k.weight", d_.kv_width(), d_.n_embd);
    b.matrix(l.v, p + "attn_v.weight", d_.kv_width(), d_.n_embd);
    b.vector(l.q_norm, p + "attn_q_norm.weight", d_.head_dim);
    b.vector(l.k_norm, p + "attn_k_norm.weight", d_.head_dim);
    b.matrix(l.o, p + "attn_output.weight", d_.n_embd, d_.q_width());
    b.vector(l.post_attn_norm, p + "post_attention_norm.weight", d_.n_embd);
    b.vector(l.ffn_norm, p + "ffn_norm.weight", d_.n_embd);
    b.matrix(l.gate, p + "ffn_gate.weight", d_.n_ff, d_.n_embd);
    b.matrix(l.up, p + "ffn_up.weight", d_.n_ff, d_.n_embd);
    b.matrix(l.down, p + "ffn_down.weight", d_.n_embd, d_.n_ff);
    b.vector(l.post_ffn_norm, p + "post_ffw_norm.weight", d_.n_embd);
}

void gemma3::attention_block(step& s, const layer& l, bool last) {
    const rope_spec& rope = l.local ? local_rope_ : global_rope_;
    const float* angles = l.local ? local_angles_ : global_angles_;
    s.norm(x_, l.attn_norm, d_.n_embd, d_.eps, h_);
    s.linear(h_, {{&l.q, nullptr, q_}, {&l.k, nullptr, k_}, {&l.v, nullptr, v_}});
    s.norm(q_, l.q_norm, d_.head_dim, d_.eps, q_, d_.n_heads);
    s.norm(k_, l.k_norm, d_.head_dim, d_.eps, k_, d_.n_kv_heads);
    s.rope(q_, d_.n_heads, d_.head_dim, rope, angles);
    s.rope(k_, d_.n_kv_heads, d_.head_dim, rope, angles);
    s.attend(l.attention, q_, k_, v_, att_);
    if (last) s.keep_logit_rows({{x_, d_.n_embd}, {att_, d_.q_width()}});
    s.linear(att_, {{&l.o, nullptr, h_}});
    s.norm(h_, l.post_attn_norm, d_.n_embd, d_.eps, h_);
    s.add(x_, h_, d_.n_embd);
}

void gemma3::ffn_block(step& s, const layer& l) {
    s.norm(x_, l.ffn_norm, d_.n_embd, d_.eps, h_);
    s.linear(h_, {{&l.gate, nullptr, gate_}, {&l.up, nullptr, up_}});
    s.gated(kernels::gate::gelu_tanh, gate_, up_, d_.n_ff, gate_);
    s.linear(gate_, {{&l.down, nullptr, h_}});
    s.norm(h_, l.post_ffn_norm, d_.n_embd, d_.eps, h_);
    s.add(x_, h_, d_.n_embd);
}

void gemma3::forward(step& s) {
    s.embed(embed_, static_cast<float>(std::sqrt(static_cast<double>(d_.n_embd))), x_);
    s.rope_angles(global_rope_, global_angles_);
    s.rope_angles(local_rope_, local_angles_);
    for (const layer& l : layers_) {
        attention_block(s, l, &l == &layers_.back());
        ffn_block(s, l);
        s.layer_done();
    }
    s.head(x_, output_norm_, d_.n_embd, d_.eps, output_, logit_cap_);
}

}  // namespace

const architecture gemma3_architecture{
    "gemma3", [](builder& b) -> std::unique_ptr<network> { return std::make_unique<gemma3>(b); }};

}  // namespace troupe::model
