// The decoder that all dense families are: grouped-query attention and a gated FFN, each between norms, on one
// residual. A family's file fills it in: which norms, biases and rotations there are, which layers see a window, what
// is scaled.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "model/architectures/architecture.hpp"

namespace troupe::model {

/// Rotary positions of a layer kind and, within a step, their cosines and sines.
struct rotary {
    rope_spec spec;
    float* angles = nullptr;
};

/// Activations, a row a token: residual; normed or projected; q, k, v; attention; FFN halves.
struct dense_rows {
    float *x = nullptr, *h = nullptr, *q = nullptr, *k = nullptr, *v = nullptr, *att = nullptr, *gate = nullptr,
          *up = nullptr;
};

struct dense_attention {
    kernels::weight q, k, v, o;  // o: [n_embd][q_width]
    const float *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr, *o_bias = nullptr;
    const float *q_norm = nullptr, *k_norm = nullptr;  ///< [head_dim], of every head before it is rotated
    const rotary* positions = nullptr;                 ///< null: not rotated
    attention_slot slot;

    /// attn_{q,k,v,output}.weight
    void declare(builder& b, const std::string& prefix, const decoder_dims& d);
    /// attn_{q,k}_norm.weight
    void declare_head_norms(builder& b, const std::string& prefix, const decoder_dims& d);
    /// h -> att; K and V are stored.
    void forward(step& s, const dense_rows& r, const decoder_dims& d) const;
};

struct dense_ffn {
    kernels::weight gate, up, down;
    const float *gate_bias = nullptr, *up_bias = nullptr, *down_bias = nullptr;

    /// ffn_{gate,up,down}.weight
    void declare(builder& b, const std::string& prefix, const decoder_dims& d);
    /// h -> h
    void forward(step& s, const dense_rows& r, const decoder_dims& d, kernels::gate kind) const;
};

struct dense_layer {
    const float *attn_norm = nullptr, *ffn_norm = nullptr;            ///< [n_embd], of the residual
    const float *post_attn_norm = nullptr, *post_ffn_norm = nullptr;  ///< of what is added to it; null: none
    dense_attention attention;
    dense_ffn ffn;

    /// post_attention_norm.weight, post_ffw_norm.weight
    void declare_post_norms(builder& b, const std::string& prefix, const decoder_dims& d);
};

class dense_decoder final : public network {
 public:
    /// Reads the sizes and declares what lies outside the layers: embedding, output norm and matrix, activations.
    explicit dense_decoder(builder& b);

    /// rope.freq_base and everything about stretching. The result stays where it is.
    const rotary* add_rope(builder& b, double default_base, kernels::rope_pairs pairs);
    const rotary* add_rope(builder& b, rope_spec spec);
    /// Layers with attn_norm and ffn_norm declared, all else up to the family. A window of 0: full attention.
    void add_layers(builder& b, double score_scale, double score_cap, std::span<const std::int32_t> window_of_layer);
    /// head_dim^-0.5
    double usual_scale() const;
    /// Gemma's: as usual, but its 27B (`layers_of_27b`; files carry no key for it) takes the width a head would have
    /// without key_length.
    double gemma_scale(std::int32_t layers_of_27b) const;
    void forward(step& s) override;

    decoder_dims dims;
    std::vector<dense_layer> layers;
    kernels::gate gate = kernels::gate::silu;
    float embedding_scale = 1, logit_cap = 0;

 private:
    std::deque<rotary> ropes_;
    embedding embed_;
    const float* output_norm_ = nullptr;
    kernels::weight output_;
    dense_rows rows_;
};

}  // namespace troupe::model
