// Families "llama" (Llama 1-3, SmolLM2, Mistral and relatives) and "smollm3": RMS norms before attention and FFN,
// rotary positions on adjacent pairs (GGUF stores q and k rows permuted for it), SwiGLU, own or tied output matrix.
// SmolLM3 is a llama whose every fourth layer does not rotate.
// Tensor names and keys: GGUF specification of the ggml project; SmolLM3: its release notes (NoPE 3:1).
#include "model/architectures/dense.hpp"
#include "model/architectures/families.hpp"

namespace troupe::model {
namespace {

void declare_biases(builder& b, dense_layer& l, const std::string& p, const decoder_dims& d) {
    b.optional_vector(l.attention.q_bias, p + "attn_q.bias", d.q_width());
    b.optional_vector(l.attention.k_bias, p + "attn_k.bias", d.kv_width());
    b.optional_vector(l.attention.v_bias, p + "attn_v.bias", d.kv_width());
    b.optional_vector(l.attention.o_bias, p + "attn_output.bias", d.n_embd);
    b.optional_vector(l.ffn.gate_bias, p + "ffn_gate.bias", d.n_ff);
    b.optional_vector(l.ffn.up_bias, p + "ffn_up.bias", d.n_ff);
    b.optional_vector(l.ffn.down_bias, p + "ffn_down.bias", d.n_embd);
}

/// `unrotated`: every so many layers one keeps its q and k as they are; 0: none does.
std::unique_ptr<network> describe(builder& b, std::size_t unrotated) {
    auto m = std::make_unique<dense_decoder>(b);
    if (b.integer_or("expert_count", 0, 0, 1 << 16) > 0)
        b.refuse(errc::model_unsupported, "llama models with experts are not built", "llama.expert_count");
    const rotary* positions = m->add_rope(b, 1e4, kernels::rope_pairs::adjacent);
    // Mistral's first models see a window in every layer.
    const std::vector<std::int32_t> windows(static_cast<std::size_t>(m->dims.n_layers), b.window_or(0));
    m->add_layers(b, b.number_or("attention.scale", m->usual_scale(), 1e-6, 1e3), 0, windows);
    for (std::size_t i = 0; i < m->layers.size(); ++i) {
        dense_layer& l = m->layers[i];
        const std::string p = layer_prefix(i);
        l.attention.declare(b, p, m->dims);
        l.ffn.declare(b, p, m->dims);
        declare_biases(b, l, p, m->dims);
        if (unrotated == 0 || (i + 1) % unrotated != 0) l.attention.positions = positions;
    }
    return m;
}

}  // namespace

const architecture llama_architecture{"llama", [](builder& b) { return describe(b, 0); }};
const architecture smollm3_architecture{"smollm3", [](builder& b) { return describe(b, 4); }};

}  // namespace troupe::model
