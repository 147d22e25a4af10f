// Family "gemma3" (text): five layers with a sliding window for one with full attention, each kind with its own rotary
// base, RMS norms before and after attention and FFN and on every q and k head, tanh GELU gate, embeddings scaled by
// sqrt(n_embd), tied output matrix. GGUF stores norm weights with the 1 already added.
// Tensor names and keys: GGUF specification of the ggml project; the model: Gemma 3 technical report.
#include <cmath>

#include "model/architectures/dense.hpp"
#include "model/architectures/families.hpp"

namespace troupe::model {
namespace {

constexpr std::int32_t layers_of_27b = 62;

std::unique_ptr<network> describe(builder& b) {
    auto m = std::make_unique<dense_decoder>(b);
    const decoder_dims& d = m->dims;
    m->gate = kernels::gate::gelu_tanh;
    m->embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(d.n_embd)));
    m->logit_cap = static_cast<float>(b.number_or("final_logit_softcapping", 0, 0, 1e6));
    const auto halves = kernels::rope_pairs::halves;
    const rotary* global = m->add_rope(b, 1e6, halves);
    // Local layers see a window only, so they were never stretched: base 10,000 unless the file says so, no factor.
    const double local_base = b.number_or("rope.freq_base_swa", 1e4, 1.0, 1e12);
    const rotary* local = m->add_rope(b, b.read_rope(local_base, {}, d.head_dim, halves));
    const auto window = static_cast<std::int32_t>(b.integer("attention.sliding_window", 1, most_window));
    const auto windows = b.alternating_windows(window, 6);
    m->add_layers(b, b.number_or("attention.scale", m->gemma_scale(layers_of_27b), 1e-6, 1e3), 0, windows);
    for (std::size_t i = 0; i < m->layers.size(); ++i) {
        dense_layer& l = m->layers[i];
        const std::string p = layer_prefix(i);
        l.attention.declare(b, p, d);
        l.attention.declare_head_norms(b, p, d);
        l.attention.positions = windows[i] != 0 ? local : global;
        l.ffn.declare(b, p, d);
        l.declare_post_norms(b, p, d);
    }
    return m;
}

}  // namespace

const architecture gemma3_architecture{"gemma3", describe};

}  // namespace troupe::model
