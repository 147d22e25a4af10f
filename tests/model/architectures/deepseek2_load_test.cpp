// What a deepseek2 file may claim: keys that real files lack, the two forms of latent attention, low-rank queries, and
// refusals of what is impossible or not built.
#include "model/kv_memory.hpp"
#include "tests/support/small_model.hpp"

namespace troupe::testing {
namespace {

constexpr std::uint64_t embd = 32, ff = 64, ff_expert = 32, experts = 4, shared = 2, vocab = 8;
constexpr std::uint64_t heads = 2, latent = 32, nope = 16, rope = 32, value = 16;

void add_attention(gguf_writer& w, const std::string& p, bool legacy) {
    w.add(p + "attn_norm.weight", {embd});
    w.add(p + "attn_q.weight", {embd, heads * (nope + rope)}, type_f16);
    w.add(p + "attn_kv_a_mqa.weight", {embd, latent + rope}, type_f16);
    w.add(p + "attn_kv_a_norm.weight", {latent});
    if (legacy) {
        w.add(p + "attn_kv_b.weight", {latent, heads * (nope + value)}, type_q8_0);
    } else {
        w.add(p + "attn_k_b.weight", {nope, latent, heads}, type_f16);
        w.add(p + "attn_v_b.weight", {latent, value, heads}, type_q8_0);
    }
    w.add(p + "attn_output.weight", {heads * value, embd}, type_f16);
    w.add(p + "ffn_norm.weight", {embd});
}

void add_experts(gguf_writer& w, const std::string& p) {
    w.add(p + "ffn_gate_inp.weight", {embd, experts});
    for (const char* name : {"ffn_gate", "ffn_up"}) {
        w.add(p + name + "_exps.weight", {embd, ff_expert, experts}, type_q8_0);
        w.add(p + name + "_shexp.weight", {embd, shared * ff_expert});
    }
    w.add(p + "ffn_down_exps.weight", {ff_expert, embd, experts}, type_q8_0);
    w.add(p + "ffn_down_shexp.weight", {shared * ff_expert, embd});
}

/// A dense layer and one with experts; only keys that published files of V2-Lite have.
gguf_writer small_deepseek2(bool legacy = true) {
    gguf_writer w;
    const std::string f = "deepseek2.";
    w.text("general.architecture", "deepseek2");
    w.u32(f + "block_count", 2);
    w.u32(f + "context_length", 128);
    w.u32(f + "embedding_length", embd);
    w.u32(f + "feed_forward_length", ff);
    w.u32(f + "attention.head_count", heads);
    w.u32(f + "attention.head_count_kv", legacy ? heads : 1);
    w.f32(f + "attention.layer_norm_rms_epsilon", 1e-6f);
    w.u32(f + "attention.kv_lora_rank", latent);
    w.u32(f + "attention.key_length", legacy ? nope + rope : latent + rope);
    w.u32(f + "attention.value_length", legacy ? value : latent);
    if (!legacy) {
        w.u32(f + "attention.key_length_mla", nope + rope);
        w.u32(f + "attention.value_length_mla", value);
    }
    w.u32(f + "rope.dimension_count", rope);
    w.u32(f + "leading_dense_block_count", 1);
    w.u32(f + "expert_count", experts);
    w.u32(f + "expert_used_count", 2);
    w.u32(f + "expert_shared_count", shared);
    w.u32(f + "expert_feed_forward_length", ff_expert);
    w.texts("tokenizer.ggml.tokens", {"a", "b", "c", "d", "e", "f", "g", "h"});
    w.add("token_embd.weight", {embd, vocab}, type_f16);
    w.add("output_norm.weight", {embd});
    w.add("output.weight", {embd, vocab}, type_f16);
    add_attention(w, "blk.0.", legacy);
    w.add("blk.0.ffn_gate.weight", {embd, ff});
    w.add("blk.0.ffn_up.weight", {embd, ff});
    w.add("blk.0.ffn_down.weight", {ff, embd});
    add_attention(w, "blk.1.", legacy);
    add_experts(w, "blk.1.");
    return w;
}

/// Loads and runs: zeros everywhere give logits of zero.
void expect_runs(const gguf_writer& w) {
    const std::string bytes = w.bytes();
    const auto file = model::gguf_file::parse(std::as_bytes(std::span(bytes)));
    ASSERT_TRUE(file.ok());
    for (const kernels::ops* ops : kernels::available_tables()) {
        kernels::pool threads(2);
        const auto m = model::model::load(*file, {.ops = ops, .threads = &threads, .max_rows = 8});
        ASSERT_TRUE(m.ok()) << m.error().message;
        auto kv = model::kv_memory::reserve((*m)->layout(), 1);
        ASSERT_TRUE(kv.ok() && (*kv)->commit(0).ok());
        const std::vector<model::token_id> tokens = {1, 2, 3};
        const std::vector<model::block_id> table = {0};
        std::vector<float> logits(3 * vocab, 1.0f);
        (*m)->forward({{{tokens, 0, {table}}}, {0, 1, 2}}, (*kv)->base(), logits.data(), nullptr);
        for (const float z : logits) EXPECT_EQ(z, 0.0f);
    }
}

TEST(deepseek2_load, forms_and_optional_parts) {
    expect_runs(small_deepseek2(true));
    expect_runs(small_deepseek2(false));

    gguf_writer low_rank = small_deepseek2();
    low_rank.u32("deepseek2.attention.q_lora_rank", 48);
    for (const std::string p : {"blk.0.", "blk.1."}) {
        low_rank.find(p + "attn_q.weight").name = p + "attn_q_b.weight";
        low_rank.find(p + "attn_q_b.weight") = {p + "attn_q_b.weight", {48, heads * (nope + rope)}, 0, 48 * 96 * 4};
        low_rank.add(p + "attn_q_a.weight", {embd, 48}, type_f16);
        low_rank.add(p + "attn_q_a_norm.weight", {48});
    }
    expect_runs(low_rank);

    gguf_writer alone = small_deepseek2();  // no shared experts
    alone.u32("deepseek2.expert_shared_count", 0);
    std::erase_if(alone.tensors, [](const auto& t) { return t.name.find("_shexp") != std::string::npos; });
    expect_runs(alone);

    gguf_writer dense = small_deepseek2();  // no experts at all
    dense.u32("deepseek2.block_count", 1);
    dense.u32("deepseek2.expert_count", 0);
    std::erase_if(dense.tensors, [](const auto& t) { return t.name.starts_with("blk.1."); });
    expect_runs(dense);
}

TEST(deepseek2_load, one_group_of_latents) {
    for (const bool legacy : {true, false}) {
        const auto plan = plan_of(small_deepseek2(legacy));
        ASSERT_TRUE(plan.ok()) << plan.error().message;
        ASSERT_EQ(plan->layout.groups.size(), 1u);
        EXPECT_EQ(plan->layout.groups[0].latent, 64);
        EXPECT_EQ(plan->layout.groups[0].window, 0);
        EXPECT_EQ(plan->layout.groups[0].n_layers, 2);
        EXPECT_EQ(plan->layout.groups[0].block_bytes, 2u * 16 * 64 * 2);
        EXPECT_EQ(plan->info.n_kv_heads, 1);
    }
    EXPECT_TRUE(plan_of(small_deepseek2(), kernels::dtype::q8_0).ok());
}

TEST(deepseek2_load, refuses_impossible_hyper_parameters) {
    const auto bad = errc::model_malformed, none = errc::model_unsupported;
    expect_refused("deepseek2", small_deepseek2(),
        {
            number("deepseek2.attention.kv_lora_rank", 0, bad, "kv_lora_rank"),
            number("deepseek2.attention.kv_lora_rank", 0xffffffff, bad, "kv_lora_rank"),
            number("deepseek2.attention.kv_lora_rank", 24, none, "multiples of 16"),
            number("deepseek2.attention.kv_lora_rank", 4096, none, "up to 1024"),
            number("deepseek2.attention.kv_lora_rank", 64, bad, "attn_kv_a_mqa"),
            {"no rank", [](gguf_writer& w) { w.remove("deepseek2.attention.kv_lora_rank"); }, bad, "kv_lora_rank"},
            number("deepseek2.attention.q_lora_rank", 16, bad, "attn_q_a.weight"),
            number("deepseek2.attention.head_count", 0, bad, "head_count"),
            number("deepseek2.attention.head_count", 3, bad, "attn_q.weight"),
            number("deepseek2.attention.key_length", 32, bad, "rope part of 32"),
            number("deepseek2.attention.key_length", 0, bad, "key_length"),
            number("deepseek2.attention.value_length", 0, bad, "value_length"),
            number("deepseek2.attention.value_length", 32, bad, "attn_kv_b.weight"),
            number("deepseek2.attention.key_length_mla", 64, bad, "value_length_mla"),
            number("deepseek2.rope.dimension_count", 0, bad, "dimension_count"),
            number("deepseek2.rope.dimension_count", 31, bad, "rope part"),
            number("deepseek2.rope.dimension_count", 48, bad, "rope part"),
            {"no rope", [](gguf_writer& w) { w.remove("deepseek2.rope.dimension_count"); }, bad, "dimension_count"},
            number("deepseek2.leading_dense_block_count", 3, bad, "leading_dense_block_count"),
            number("deepseek2.leading_dense_block_count", 0, bad, "blk.0.ffn_gate_shexp.weight"),
            number("deepseek2.leading_dense_block_count", 2, bad, "blk.1.ffn_gate.weight"),
            number("deepseek2.expert_used_count", 0, bad, "expert_used_count"),
            number("deepseek2.expert_used_count", 5, bad, "expert_used_count"),
            {"no used count", [](gguf_writer& w) { w.remove("deepseek2.expert_used_count"); }, bad, "expert_used"},
            number("deepseek2.expert_count", 5, bad, "ffn_gate_inp"),
            number("deepseek2.expert_count", 4096, bad, "expert_count"),
            number("deepseek2.expert_feed_forward_length", 0, bad, "expert_feed_forward_length"),
            number("deepseek2.expert_feed_forward_length", 16, bad, "ffn_gate_shexp"),
            number("deepseek2.expert_shared_count", 1, bad, "ffn_gate_shexp"),
            number("deepseek2.expert_gating_func", 2, none, "sigmoid"),
            number("deepseek2.expert_gating_func", 3, none, "router gate 3"),
            number("deepseek2.expert_group_count", 8, none, "groups of experts"),
            {"scale below zero", [](gguf_writer& w) { w.f32("deepseek2.expert_weights_scale", -1); }, bad, "scale"},
            {"norm of text", [](gguf_writer& w) { w.text("deepseek2.expert_weights_norm", "no"); }, bad, "norm"},
        });
}

TEST(deepseek2_load, refuses_tensors_that_do_not_fit) {
    const auto bad = errc::model_malformed, none = errc::model_unsupported;
    const auto lose = [](const char* name) { return [=](gguf_writer& w) { w.find(name).name += "x"; }; };
    const auto reshape = [](const char* name, std::vector<std::uint64_t> shape) {
        return [=](gguf_writer& w) { w.find(name).shape = shape; };
    };
    expect_refused("deepseek2", small_deepseek2(),
        {
            {"no kv_b", lose("blk.1.attn_kv_b.weight"), bad, "attn_k_b.weight"},
            {"no experts", lose("blk.1.ffn_down_exps.weight"), bad, "ffn_down_exps"},
            {"no router", lose("blk.1.ffn_gate_inp.weight"), bad, "ffn_gate_inp"},
            {"experts in one matrix", reshape("blk.1.ffn_up_exps.weight", {embd, ff_expert * experts}), bad,
                "ffn_up_exps"},
            {"experts turned", reshape("blk.1.ffn_down_exps.weight", {embd, ff_expert * 2, experts / 2}), bad,
                "ffn_down_exps"},
            {"bias of V3", [](gguf_writer& w) { w.add("blk.1.exp_probs_b.bias", {experts}); }, none, "exp_probs_b"},
        });
    expect_refused("deepseek2", small_deepseek2(false),
        {
            {"no v_b", lose("blk.0.attn_v_b.weight"), bad, "attn_v_b.weight"},
            {"k_b turned", reshape("blk.0.attn_k_b.weight", {latent, nope, heads}), bad, "attn_k_b"},
            {"both forms",
                [](gguf_writer& w) {
                    w.add("blk.0.attn_kv_b.weight", {latent, heads * (nope + value)}, type_f16);
                },
                none, "attn_k_b"},
        });
}

}  // namespace
}  // namespace troupe::testing
