// Family "qwen3" (dense Qwen 3): RMS norms on every q and k head before it is rotated, no biases, heads whose size is
// not n_embd / n_heads, rotary positions on half-split pairs, SwiGLU, own or tied output matrix. Tensor names and keys:
// GGUF specification of the ggml project; the model: Qwen3 technical report.
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
        l.attention.declare_head_norms(b, p, d);
        l.attention.positions = positions;
        l.ffn.declare(b, p, d);
    }
    return m;
}

}  // namespace

const architecture qwen3_architecture{"qwen3", describe};

}  // namespace troupe::model
