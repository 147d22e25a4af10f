// Family "deepseek2": DeepSeek-V2-Lite, and DeepSeek-V2 as far as its experts are not limited to groups. Multi-head
// latent attention with a decoupled rotary part, dense FFNs in the first layers, then experts chosen by a softmax
// router beside shared ones, YaRN whose mscale goes into the scale of the scores.
//
// Keys and values of a token are products of one latent: k = {W_k latent, rope part}, v = W_v latent. Only latent and
// rope part are kept. W_k is moved to the query's side, (q W_k) . latent, and W_v behind the sum over keys; so all
// heads share one key that is its own value. Decode and prefill both do it this way (design section 8, rule 10).
//
// Tensor names and keys: GGUF specification of the ggml project; the model: DeepSeek-V2's technical report. Keys that
// older files lack: expert_gating_func (softmax), expert_weights_norm (false), q_lora_rank (0: no such tensors),
// key_length_mla and value_length_mla (key_length and value_length then are those of a head).
#include <cmath>

#include "model/architectures/architecture.hpp"
#include "model/architectures/families.hpp"

namespace troupe::model {
namespace {

constexpr std::int64_t most_rank = 1 << 16, most_dim = 1024, most_width = 1 << 20;

struct layer {
    const float *attn_norm = nullptr, *q_a_norm = nullptr, *kv_a_norm = nullptr, *ffn_norm = nullptr;
    kernels::weight q_a, q;      // without q_lora_rank there is no q_a
    kernels::weight kv_a;        // [latent + rope][n_embd]
    kernels::weight_stack k, v;  // a head: [latent][nope], [value][latent]
    kernels::weight o;
    kernels::weight gate, up, down;  // dense FFN, or the shared experts as one
    bool mixture = false;
    kernels::weight router;  // [experts][n_embd]
    kernels::weight_stack expert_gate, expert_up, expert_down;
    attention_slot attention;
};

/// Widths of a head and of what it is made from.
struct latent_dims {
    std::int64_t q_rank = 0, latent = 1, nope = 1, rope = 2, value = 1;
    std::int64_t head() const { return nope + rope; }   ///< of a query as projected
    std::int64_t key() const { return latent + rope; }  ///< of a key as kept, and of a query to meet it
};

class deepseek2 final : public network {
 public:
    explicit deepseek2(builder& b);
    void forward(step& s) override;

 private:
    void read_attention(builder& b);
    void read_experts(builder& b);
    float read_rope(builder& b);
    void declare_attention(builder& b, std::size_t i);
    void declare_ffn(builder& b, std::size_t i);
    void declare_activations(builder& b);
    void project(step& s, const layer& l);
    void attention_block(step& s, const layer& l, bool last);
    void dense_ffn(step& s, const layer& l, std::int64_t width, float* y);
    void mixture(step& s, const layer& l);

    decoder_dims d_;
    latent_dims a_;
    kernels::router_params router_{1, 1};
    std::int64_t first_mixture_ = 0, n_ff_expert_ = 1, n_ff_shared_ = 0;
    rope_spec rope_;
    embedding embed_;
    std::vector<layer> layers_;
    const float* output_norm_ = nullptr;
    kernels::weight output_;
    kernels::routing routing_;
    // Activations, a row a token: residual, normed or projected, experts' sum; low-rank query, query, latent and rope
    // part as projected and apart, query in the keys' space, sums of latents, values; FFN halves, router's logits.
    float *x_, *h_, *mix_, *q_low_, *q_, *kv_, *latent_, *own_, *query_, *att_, *value_, *gate_, *up_, *logits_,
        *angles_;
};

deepseek2::deepseek2(builder& b) : d_(b.read_sizes()) {
    read_attention(b);
    read_experts(b);
    const float scale = read_rope(b);
    b.embed(embed_, "token_embd.weight", d_.n_vocab, d_.n_embd);
    b.vector(output_norm_, "output_norm.weight", d_.n_embd);
    b.output(output_, d_.n_vocab, d_.n_embd);
    const auto slots = b.latent_attention(a_.latent, a_.rope, scale);
    layers_.resize(static_cast<std::size_t>(d_.n_layers));
    for (std::size_t i = 0; i < layers_.size(); ++i) {
        layers_[i].attention = slots[i];
        declare_attention(b, i);
        declare_ffn(b, i);
    }
    declare_activations(b);
}

void deepseek2::read_attention(builder& b) {
    a_.latent = b.integer("attention.kv_lora_rank", 1, most_rank);
    a_.q_rank = b.integer_or("attention.q_lora_rank", 0, 0, most_rank);
    a_.rope = b.integer("rope.dimension_count", 2, most_dim);
    const bool absorbed = b.given("attention.key_length_mla");
    const std::int64_t head = b.integer(absorbed ? "attention.key_length_mla" : "attention.key_length", 1, most_dim);
    a_.value = b.integer(absorbed ? "attention.value_length_mla" : "attention.value_length", 1, most_dim);
    if (a_.rope % 2 != 0 || a_.rope >= head)
        b.refuse(errc::model_malformed,
            "a rope part of " + std::to_string(a_.rope) + " in heads of " + std::to_string(head) + " values",
            "deepseek2.rope.dimension_count");
    a_.nope = std::max<std::int64_t>(1, head - a_.rope);
}

void deepseek2::read_experts(builder& b) {
    const auto n_experts = b.integer_or("expert_count", 0, 0, kernels::most_experts);
    first_mixture_ = n_experts == 0 ? d_.n_layers : b.integer_or("leading_dense_block_count", 0, 0, d_.n_layers);
    if (first_mixture_ == d_.n_layers) return;
    router_.n_experts = static_cast<int>(n_experts);
    router_.n_used = static_cast<int>(b.integer("expert_used_count", 1, n_experts));
    router_.normalize = b.flag_or("expert_weights_norm", false);
    const double scale = b.number_or("expert_weights_scale", 1, 0, 1e6);
    router_.scale = scale == 0 ? 1.0f : static_cast<float>(scale);  // 0: written by converters for "none"
    n_ff_expert_ = b.integer("expert_feed_forward_length", 1, most_width);
    n_ff_shared_ = n_ff_expert_ * b.integer_or("expert_shared_count", 0, 0, kernels::most_experts);
    constexpr std::int64_t none = 0, softmax = 1, sigmoid = 2;
    const auto gating = b.integer_or("expert_gating_func", softmax, none, 1 << 16);
    if (gating > softmax)
        b.refuse(errc::model_unsupported,
            gating == sigmoid ? "routers with sigmoid gates (DeepSeek-V3) are not built"
                              : "router gate " + std::to_string(gating) + " is not built",
            "deepseek2.expert_gating_func");
    if (b.integer_or("expert_group_count", 1, 0, 1 << 16) > 1)
        b.refuse(errc::model_unsupported, "routers that choose groups of experts first are not built",
            "deepseek2.expert_group_count");
}

/// Frequencies, and the scale of scores. Files hold one multiplier for mscale and mscale_all_dim: cosines and sines are
/// multiplied by the ratio of the two magnitudes, which is 1, and scores by the second's square.
float deepseek2::read_rope(builder& b) {
    const auto head = static_cast<int>(a_.head());
    const rope_scaling scaling = b.read_rope_scaling(head);
    rope_ = b.read_rope(b.number_or("rope.freq_base", 1e4, 1.0, 1e12), scaling, head, kernels::rope_pairs::adjacent);
    double magnitude = 1;
    if (scaling.type == rope_scaling_type::yarn && scaling.log_multiplier > 0) {
        rope_.magnitude = scaling.attn_magnitude.value_or(1);
        magnitude = yarn_magnitude(scaling.factor, 10 * scaling.log_multiplier);  // stored as 0.1 mscale_all_dim
    }
    return static_cast<float>(magnitude * magnitude / std::sqrt(static_cast<double>(head)));
}

void deepseek2::declare_attention(builder& b, std::size_t i) {
    layer& l = layers_[i];
    const std::string p = layer_prefix(i);
    const std::int64_t heads = d_.n_heads, pair = a_.nope + a_.value;
    b.vector(l.attn_norm, p + "attn_norm.weight", d_.n_embd);
    if (a_.q_rank > 0) {
        b.matrix(l.q_a, p + "attn_q_a.weight", a_.q_rank, d_.n_embd);
        b.vector(l.q_a_norm, p + "attn_q_a_norm.weight", a_.q_rank);
        b.matrix(l.q, p + "attn_q_b.weight", heads * a_.head(), a_.q_rank);
    } else {
        b.matrix(l.q, p + "attn_q.weight", heads * a_.head(), d_.n_embd);
    }
    b.matrix(l.kv_a, p + "attn_kv_a_mqa.weight", a_.key(), d_.n_embd);
    b.vector(l.kv_a_norm, p + "attn_kv_a_norm.weight", a_.latent);
    if (b.has(p + "attn_kv_b.weight")) {  // a head's rows: nope of its key, then its value
        b.stack_of_rows(l.k, p + "attn_kv_b.weight", heads * pair, a_.latent,
            {.count = heads, .rows = a_.nope, .first = 0, .step = pair, .transposed = true});
        b.stack_of_rows(l.v, p + "attn_kv_b.weight", heads * pair, a_.latent,
            {.count = heads, .rows = a_.value, .first = a_.nope, .step = pair});
    } else {
        b.stack(l.k, p + "attn_k_b.weight", heads, a_.latent, a_.nope, heads);
        b.stack(l.v, p + "attn_v_b.weight", heads, a_.value, a_.latent, heads);
    }
    b.matrix(l.o, p + "attn_output.weight", d_.n_embd, heads * a_.value);
}

void deepseek2::declare_ffn(builder& b, std::size_t i) {
    layer& l = layers_[i];
    const std::string p = layer_prefix(i);
    b.vector(l.ffn_norm, p + "ffn_norm.weight", d_.n_embd);
    l.mixture = static_cast<std::int64_t>(i) >= first_mixture_;
    const std::string part = l.mixture ? "_shexp.weight" : ".weight";
    const std::int64_t width = l.mixture ? n_ff_shared_ : d_.n_ff;
    if (width > 0) {
        b.matrix(l.gate, p + "ffn_gate" + part, width, d_.n_embd);
        b.matrix(l.up, p + "ffn_up" + part, width, d_.n_embd);
        b.matrix(l.down, p + "ffn_down" + part, d_.n_embd, width);
    }
    if (!l.mixture) return;
    const std::int64_t n = router_.n_experts, used = router_.n_used;
    b.float_matrix(l.router, p + "ffn_gate_inp.weight", n, d_.n_embd);
    b.stack(l.expert_gate, p + "ffn_gate_exps.weight", n, n_ff_expert_, d_.n_embd, used);
    b.stack(l.expert_up, p + "ffn_up_exps.weight", n, n_ff_expert_, d_.n_embd, used);
    b.stack(l.expert_down, p + "ffn_down_exps.weight", n, d_.n_embd, n_ff_expert_, used);
}

void deepseek2::declare_activations(builder& b) {
    const std::int64_t heads = d_.n_heads, used = router_.n_used;
    for (float** narrow : {&x_, &h_, &mix_}) b.activation(*narrow, d_.n_embd);
    b.activation(q_low_, a_.q_rank);
    b.activation(q_, heads * a_.head());
    b.activation(kv_, a_.key());
    b.activation(latent_, a_.latent);
    b.activation(own_, a_.rope);
    // The query in the keys' space is the widest buffer; attention done, the experts' results lie in it.
    b.activation(query_, std::max(heads * a_.key(), used * d_.n_embd));
    b.activation(att_, heads * a_.latent);
    b.activation(value_, heads * a_.value);
    for (float** wide : {&gate_, &up_})
        b.activation(*wide, std::max({static_cast<std::int64_t>(d_.n_ff), n_ff_shared_, used * n_ff_expert_}));
    b.activation(logits_, router_.n_experts);
    b.activation(angles_, 2 * rope_.half());
    routing_.n_experts = router_.n_experts;
    routing_.n_used = router_.n_used;
    b.activation(routing_.weight, used);
    for (std::int32_t** slots : {&routing_.slot, &routing_.row}) b.activation(*slots, used);
    b.activation(routing_.first, router_.n_experts + 1);
}

void deepseek2::project(step& s, const layer& l) {
    if (a_.q_rank > 0) {
        s.linear(h_, {{&l.q_a, nullptr, q_low_}, {&l.kv_a, nullptr, kv_}});
        s.norm(q_low_, l.q_a_norm, a_.q_rank, d_.eps, q_low_);
        s.linear(q_low_, {{&l.q, nullptr, q_}});
    } else {
        s.linear(h_, {{&l.q, nullptr, q_}, {&l.kv_a, nullptr, kv_}});
    }
    s.copy(kv_, a_.key(), a_.latent, latent_, a_.latent);
    s.copy(kv_ + a_.latent, a_.key(), a_.rope, own_, a_.rope);
    s.norm(latent_, l.kv_a_norm, a_.latent, d_.eps, latent_);
    s.rope(own_, 1, static_cast<int>(a_.rope), rope_, angles_);
    s.rope(q_ + a_.nope, d_.n_heads, static_cast<int>(a_.head()), rope_, angles_);
    s.linear_heads(q_, a_.head(), l.k, query_, a_.key());
    s.copy(q_ + a_.nope, a_.head(), a_.rope, query_ + a_.latent, a_.key(), d_.n_heads);
}

void deepseek2::attention_block(step& s, const layer& l, bool last) {
    s.norm(x_, l.attn_norm, d_.n_embd, d_.eps, h_);
    project(s, l);
    s.attend(l.attention, query_, own_, latent_, att_);
    if (last) s.keep_logit_rows({{x_, d_.n_embd}, {att_, d_.n_heads * a_.latent}});
    s.linear_heads(att_, a_.latent, l.v, value_, a_.value);
    s.linear(value_, {{&l.o, nullptr, h_}});
    s.add(x_, h_, d_.n_embd);
}

/// Of h_.
void deepseek2::dense_ffn(step& s, const layer& l, std::int64_t width, float* y) {
    s.linear(h_, {{&l.gate, nullptr, gate_}, {&l.up, nullptr, up_}});
    s.gated(kernels::gate::silu, gate_, up_, width, gate_);
    s.linear(gate_, {{&l.down, nullptr, y}});
}

/// The chosen experts by rank, the shared ones last (design section 8, rule 11).
void deepseek2::mixture(step& s, const layer& l) {
    s.linear(h_, {{&l.router, nullptr, logits_}});
    s.route(router_, logits_, routing_);
    s.experts(h_, kernels::expert_input::rows, routing_, {{&l.expert_gate, gate_}, {&l.expert_up, up_}});
    s.gated(kernels::gate::silu, gate_, up_, router_.n_used * n_ff_expert_, gate_);
    float* parts = query_;
    s.experts(gate_, kernels::expert_input::slots, routing_, {{&l.expert_down, parts}});
    s.combine(routing_, parts, d_.n_embd, mix_);
    if (n_ff_shared_ > 0) {
        dense_ffn(s, l, n_ff_shared_, h_);
        s.add(mix_, h_, d_.n_embd);
    }
    s.add(x_, mix_, d_.n_embd);
}

void deepseek2::forward(step& s) {
    s.embed(embed_, 1.0f, x_);
    s.rope_angles(rope_, angles_);
    for (const layer& l : layers_) {
        attention_block(s, l, &l == &layers_.back());
        s.norm(x_, l.ffn_norm, d_.n_embd, d_.eps, h_);
        if (l.mixture) {
            mixture(s, l);
        } else {
            dense_ffn(s, l, d_.n_ff, mix_);
            s.add(x_, mix_, d_.n_embd);
        }
        s.layer_done();
    }
    s.head(x_, output_norm_, d_.n_embd, d_.eps, output_);
}

}  // namespace

const architecture deepseek2_architecture{
    "deepseek2", [](builder& b) -> std::unique_ptr<network> { return std::make_unique<deepseek2>(b); }};

}  // namespace troupe::model
