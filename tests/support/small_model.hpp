// The smallest well-formed file of every dense family, to be made wrong in one point.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "model/formats/gguf.hpp"
#include "model/model.hpp"
#include "tests/support/gguf_writer.hpp"

namespace troupe::testing {

inline constexpr std::uint32_t type_f16 = 1, type_q8_0 = 8;

inline const std::vector<std::string>& dense_families() {
    static const std::vector<std::string> all{"llama", "smollm3", "qwen2", "qwen3", "gemma2", "gemma3", "phi3"};
    return all;
}

inline void add_small_layer(
    gguf_writer& w, const std::string& p, const std::string& family, std::uint64_t embd, std::uint64_t ff) {
    const bool gemma = family == "gemma2" || family == "gemma3", fused = family == "phi3";
    w.add(p + "attn_norm.weight", {embd});
    if (fused) {
        w.add(p + "attn_qkv.weight", {embd, 64}, type_f16);
    } else {
        w.add(p + "attn_q.weight", {embd, 32}, type_f16);
        w.add(p + "attn_k.weight", {embd, 16}, type_f16);
        w.add(p + "attn_v.weight", {embd, 16}, type_f16);
        w.add(p + "ffn_gate.weight", {embd, ff});
    }
    w.add(p + "attn_output.weight", {32, embd}, type_f16);
    w.add(p + "ffn_norm.weight", {embd});
    w.add(p + "ffn_up.weight", {embd, fused ? 2 * ff : ff});
    w.add(p + "ffn_down.weight", {ff, embd});
    if (family == "qwen2") {
        w.add(p + "attn_q.bias", {32});
        for (const char* name : {"attn_k.bias", "attn_v.bias"}) w.add(p + name, {16});
    }
    if (family == "qwen3" || family == "gemma3")
        for (const char* head : {"attn_q_norm.weight", "attn_k_norm.weight"}) w.add(p + head, {16});
    if (gemma)
        for (const char* post : {"post_attention_norm.weight", "post_ffw_norm.weight"}) w.add(p + post, {embd});
}

/// 2 heads of 16 sharing one KV head, vocabulary of 8.
inline gguf_writer small_model(
    const std::string& family, std::uint64_t embd = 32, std::uint64_t ff = 64, std::uint32_t n_layers = 2) {
    gguf_writer w;
    w.text("general.architecture", family);
    w.u32(family + ".block_count", n_layers);
    w.u32(family + ".context_length", 128);
    w.u32(family + ".embedding_length", static_cast<std::uint32_t>(embd));
    w.u32(family + ".feed_forward_length", static_cast<std::uint32_t>(ff));
    w.u32(family + ".attention.head_count", 2);
    w.u32(family + ".attention.head_count_kv", 1);
    w.u32(family + ".attention.key_length", 16);
    w.f32(family + ".attention.layer_norm_rms_epsilon", 1e-5f);
    if (family == "gemma3") w.u32("gemma3.attention.sliding_window", 16);
    w.texts("tokenizer.ggml.tokens", {"a", "b", "c", "d", "e", "f", "g", "h"});
    w.add("token_embd.weight", {embd, 8}, type_f16);
    w.add("output_norm.weight", {embd});
    for (std::uint32_t i = 0; i < n_layers; ++i) add_small_layer(w, "blk." + std::to_string(i) + ".", family, embd, ff);
    return w;
}

/// The file with numbers in its tensors: halves of 0.03 to 0.12 with either sign, floats of 0.5 to 1.5.
inline std::string noisy_bytes(const gguf_writer& w) {
    std::string bytes = w.bytes();
    std::mt19937 random(7);
    std::size_t at = w.header().size();
    for (const auto& t : w.tensors) {
        for (std::size_t i = 0; i < t.bytes; i += t.type == type_f16 ? 2 : 4) {
            const auto half = static_cast<std::uint16_t>(0x2800 + (random() & 0x87ff));
            const float whole = 0.5f + static_cast<float>(random() & 0xffff) / 0x10000;
            if (t.type == type_f16)
                std::memcpy(&bytes[at + i], &half, 2);
            else
                std::memcpy(&bytes[at + i], &whole, 4);
        }
        at += (t.bytes + 31) / 32 * 32;
    }
    return bytes;
}

inline result<model::model_plan> plan_of(
    const gguf_writer& w, kernels::dtype kv = kernels::dtype::f16, std::int32_t n_ctx = 0) {
    const std::string bytes = w.bytes();
    TROUPE_TRY(const auto file, model::gguf_file::parse(std::as_bytes(std::span(bytes))));
    return model::plan(*file, {.ops = *kernels::table("ref"), .kv_type = kv, .max_rows = 8, .n_ctx = n_ctx});
}

struct fault {
    std::string what;
    std::function<void(gguf_writer&)> make;
    errc code;
    std::string named;  ///< must be in the message
};

/// `model` is fine, and refused as each fault says once that is in it.
inline void expect_refused(const std::string& family, const gguf_writer& model, const std::vector<fault>& faults) {
    const auto fine = plan_of(model);
    ASSERT_TRUE(fine.ok()) << family << ": " << fine.error().message;
    for (const fault& f : faults) {
        gguf_writer w = model;
        f.make(w);
        const auto plan = plan_of(w);
        ASSERT_FALSE(plan.ok()) << family << ": " << f.what;
        EXPECT_EQ(plan.error().code, f.code) << family << ": " << f.what << ": " << plan.error().message;
        EXPECT_NE(plan.error().message.find(f.named), std::string::npos)
            << family << ": " << f.what << ": " << plan.error().message;
    }
}

inline void expect_refused(const std::string& family, const std::vector<fault>& faults) {
    expect_refused(family, small_model(family), faults);
}

inline fault number(const std::string& key, std::uint32_t value, errc code, const std::string& named) {
    return {key, [=](gguf_writer& w) { w.u32(key, value); }, code, named};
}

}  // namespace troupe::testing
