// Family "phi3" (Phi-3 and 3.5 mini and medium, Phi-4): q, k and v in one matrix, the FFN's gate and up in another,
// rotary positions on half-split pairs, stretched by two lists of factors of which the configured context chooses,
// SwiGLU, in some models a sliding window in every layer, own or tied output matrix. Tensor names and keys: GGUF
// specification of the ggml project; the model: Phi-3 technical report.
#include "model/architectures/dense.hpp"
#include "model/architectures/families.hpp"

namespace troupe::model {
namespace {

void declare_fused(builder& b, dense_layer& l, const std::string& p, const decoder_dims& d) {
    const std::string qkv = p + "attn_qkv.weight", gate_up = p + "ffn_up.weight";
    const std::int64_t q = d.q_width(), kv = d.kv_width(), ff = d.n_ff;
    b.matrix_rows(l.attention.q, qkv, q + 2 * kv, d.n_embd, 0, q);
    b.matrix_rows(l.attention.k, qkv, q + 2 * kv, d.n_embd, q, kv);
    b.matrix_rows(l.attention.v, qkv, q + 2 * kv, d.n_embd, q + kv, kv);
    b.matrix(l.attention.o, p + "attn_output.weight", d.n_embd, q);
    b.matrix_rows(l.ffn.gate, gate_up, 2 * ff, d.n_embd, 0, ff);
    b.matrix_rows(l.ffn.up, gate_up, 2 * ff, d.n_embd, ff, ff);
    b.matrix(l.ffn.down, p + "ffn_down.weight", d.n_embd, ff);
}

std::unique_ptr<network> describe(builder& b) {
    auto m = std::make_unique<dense_decoder>(b);
    const decoder_dims& d = m->dims;
    const rotary* positions = m->add_rope(b, 1e4, kernels::rope_pairs::halves);
    const std::vector<std::int32_t> windows(static_cast<std::size_t>(d.n_layers), b.window_or(0));
    m->add_layers(b, m->usual_scale(), 0, windows);
    for (std::size_t i = 0; i < m->layers.size(); ++i) {
        declare_fused(b, m->layers[i], layer_prefix(i), d);
        m->layers[i].attention.positions = positions;
    }
    return m;
}

}  // namespace

const architecture phi3_architecture{"phi3", describe};

}  // namespace troupe::model
