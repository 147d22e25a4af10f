// Family "qwen2" (Qwen 2 and 2.5): biases on q, k and v, rotary positions on half-split pairs, SwiGLU, own or tied
// output matrix. Tensor names and keys: GGUF specification of the ggml project; the model: Qwen2 technical report.
#include "model/architectures/dense.hpp"
#include "model/architectures/families.hpp"

namespace troupe::model {
namespace {

std::unique_ptr<network> describe(builder& b) {
    auto m = std::make_unique<dense_decoder>(b);
    const decoder_dims& d = m->dims;
    const rotary* positions = m->add_rope(b, 1e4, kernels::rope_pairs::halves);
    m->add_layers(b, m->usual_scale(), 0, std::vector<std::int32_t>(static_cast<std::size_t>(d.n_layers), 0));
    for (std::size_t i = 0; i < m->layers.size(); ++i) {
        dense_layer& l = m->layers[i];
        const std::string p = layer_prefix(i);
        l.attention.declare(b, p, d);
        b.vector(l.attention.q_bias, p + "attn_q.bias", d.q_width());
        b.vector(l.attention.k_bias, p + "attn_k.bias", d.kv_width());
        b.vector(l.attention.v_bias, p + "attn_v.bias", d.kv_width());
        l.attention.positions = positions;
        l.ffn.declare(b, p, d);
    }
    return m;
}

}  // namespace

const architecture qwen2_architecture{"qwen2", describe};

}  // namespace troupe::model
