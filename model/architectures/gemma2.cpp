// Family "gemma2": a layer with a sliding window and one with full attention in turn, scores and logits soft-capped,
// RMS norms before and after attention and FFN, tanh GELU gate, embeddings scaled by sqrt(n_embd), tied output matrix.
// GGUF stores norm weights with the 1 already added. Tensor names and keys: GGUF specification of the ggml project; the
// model: Gemma 2 technical report.
#include <cmath>

#include "model/architectures/dense.hpp"
#include "model/architectures/families.hpp"

namespace troupe::model {
namespace {

/// The first files had no keys for window and caps: all models have these.
constexpr std::int64_t usual_window = 4096;
constexpr double score_cap = 50, logit_cap = 30;

constexpr std::int32_t layers_of_27b = 46;

std::unique_ptr<network> describe(builder& b) {
    auto m = std::make_unique<dense_decoder>(b);
    const decoder_dims& d = m->dims;
    m->gate = kernels::gate::gelu_tanh;
    m->embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(d.n_embd)));
    m->logit_cap = static_cast<float>(b.number_or("final_logit_softcapping", logit_cap, 0, 1e6));
    const rotary* positions = m->add_rope(b, 1e4, kernels::rope_pairs::halves);
    const auto window =
        static_cast<std::int32_t>(b.integer_or("attention.sliding_window", usual_window, 1, most_window));
    const auto windows = b.alternating_windows(window, 2);
    m->add_layers(b, b.number_or("attention.scale", m->gemma_scale(layers_of_27b), 1e-6, 1e3),
        b.number_or("attn_logit_softcapping", score_cap, 0, 1e6), windows);
    for (std::size_t i = 0; i < m->layers.size(); ++i) {
        dense_layer& l = m->layers[i];
        const std::string p = layer_prefix(i);
        l.attention.declare(b, p, d);
        l.attention.positions = positions;
        l.ffn.declare(b, p, d);
        l.declare_post_norms(b, p, d);
    }
    return m;
}

}  // namespace

const architecture gemma2_architecture{"gemma2", describe};

}  // namespace troupe::model
