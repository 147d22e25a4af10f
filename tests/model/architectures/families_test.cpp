// What each dense family asks of a file: which tensors, which windows, which scales; and that no claim of a file,
// however strange, gets past the builder as anything but a typed error.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/paged_runner.hpp"
#include "tests/support/small_model.hpp"

namespace troupe::testing {
namespace {

std::vector<model::layer_group> groups_of(const gguf_writer& w, std::int32_t n_ctx = 0) {
    const auto plan = plan_of(w, kernels::dtype::f16, n_ctx);
    EXPECT_TRUE(plan.ok()) << plan.error().message;
    return plan.ok() ? plan->layout.groups : std::vector<model::layer_group>{};
}

TEST(families, every_tensor_is_needed_and_none_may_be_left_over) {
    for (const std::string& family : dense_families()) {
        const gguf_writer whole = small_model(family);
        ASSERT_TRUE(plan_of(whole).ok()) << family << ": " << plan_of(whole).error().message;
        for (const auto& t : whole.tensors) {
            gguf_writer w = whole;
            std::erase_if(w.tensors, [&](const auto& other) { return other.name == t.name; });
            // Without llama's biases and rotary factors a file is whole; what is here is all needed.
            ASSERT_FALSE(plan_of(w).ok()) << family << " without " << t.name;
            EXPECT_EQ(plan_of(w).error().code, errc::model_malformed);
            EXPECT_NE(plan_of(w).error().message.find(t.name), std::string::npos) << plan_of(w).error().message;
            w = whole;
            w.find(t.name).shape.back() += t.name == "token_embd.weight" ? 1 : 16;
            w.find(t.name).bytes *= 2;
            ASSERT_FALSE(plan_of(w).ok()) << family << " with another shape of " << t.name;
            EXPECT_EQ(plan_of(w).error().code, errc::model_malformed);
        }
        gguf_writer more = whole;
        more.add("blk.1.attn_sinks.weight", {2});
        EXPECT_EQ(plan_of(more).error().code, errc::model_unsupported) << family;
        EXPECT_NE(plan_of(more).error().message.find("attn_sinks"), std::string::npos);
    }
}

TEST(families, every_family_checks_what_it_reads) {
    const auto bad = errc::model_malformed;
    for (const std::string& f : dense_families()) {
        const auto nan = std::numeric_limits<float>::quiet_NaN();
        const auto real = [&](const char* key, float value) -> fault {
            return {key, [=](gguf_writer& w) { w.f32(f + key, value); }, bad, key};
        };
        expect_refused(
            f, {
                   number(f + ".block_count", 0, bad, "block_count"),
                   number(f + ".block_count", 0xffffffff, bad, "block_count"),
                   number(f + ".attention.head_count", 0, bad, "head_count"),
                   number(f + ".attention.head_count_kv", 3, bad, "no multiple"),
                   number(f + ".attention.key_length", 0, bad, "key_length"),
                   number(f + ".attention.value_length", 32, errc::model_unsupported, "differ in length"),
                   number(f + ".context_length", 0, bad, "context_length"),
                   number(f + ".vocab_size", 7, bad, "vocab_size"),
                   number(f + ".rope.dimension_count", 32, bad, "rope"),
                   number(f + ".rope.dimension_count", 3, bad, "rope"),
                   real(".rope.freq_base", nan),
                   real(".rope.freq_base", 0),
                   real(".rope.scaling.factor", -1),
                   real(".attention.layer_norm_rms_epsilon", 0),
                   {"rope scaling of the future", [&](gguf_writer& w) { w.text(f + ".rope.scaling.type", "dynamic"); },
                       errc::model_unsupported, "dynamic"},
                   {"tokens that are no rows of the embedding",
                       [](gguf_writer& w) {
                           w.texts("tokenizer.ggml.tokens", {"a", "b", "c", "d", "e", "f", "g"});
                       },
                       bad, "tokenizer"},
                   {"text for a number", [&](gguf_writer& w) { w.text(f + ".attention.head_count", "2"); }, bad,
                       "head_count"},
               });
    }
    for (const std::string f : {"llama", "smollm3", "gemma2", "gemma3", "phi3"})
        expect_refused(f, {number(f + ".attention.sliding_window", 0xffffffff, bad, "sliding_window"),
                              {"window of text", [&](gguf_writer& w) { w.text(f + ".attention.sliding_window", "16"); },
                                  bad, "sliding_window"}});
    for (const std::string f : {"gemma2", "gemma3"})
        expect_refused(
            f, {number(f + ".attention.sliding_window", 0, bad, "sliding_window"),
                   number(f + ".attention.sliding_window_pattern", 0, bad, "sliding_window_pattern"),
                   number(f + ".attention.sliding_window_pattern", 0xffffffff, bad, "sliding_window_pattern"),
                   {"negative cap", [&](gguf_writer& w) { w.f32(f + ".final_logit_softcapping", -1); }, bad,
                       "final_logit_softcapping"},
                   {"no scale", [&](gguf_writer& w) { w.f32(f + ".attention.scale", 0); }, bad, "scale"}});
    expect_refused("gemma2",
        {{"infinite cap",
            [](gguf_writer& w) { w.f32("gemma2.attn_logit_softcapping", std::numeric_limits<float>::infinity()); }, bad,
            "attn_logit_softcapping"}});
}

TEST(families, no_number_in_a_file_does_more_than_refuse_it) {
    const std::vector<std::uint32_t> integers{0, 1, 2, 3, 7, 16, 17, 255, 4096, 0x7fffffff, 0x80000000, 0xffffffff};
    const std::vector<float> reals{
        0, -1, 1e-30f, 1, 1e30f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()};
    const std::vector<const char*> further_integers{".attention.sliding_window", ".attention.sliding_window_pattern",
        ".attention.value_length", ".rope.dimension_count", ".rope.scaling.original_context_length", ".vocab_size",
        ".expert_count"};
    const std::vector<const char*> further_reals{".rope.freq_base", ".rope.freq_base_swa", ".rope.scaling.factor",
        ".rope.scaling.attn_factor", ".rope.scaling.yarn_attn_factor", ".rope.scaling.yarn_beta_fast",
        ".rope.scaling.yarn_beta_slow", ".rope.scaling.yarn_ext_factor", ".rope.scaling.low_freq_factor",
        ".attention.scale", ".attn_logit_softcapping", ".final_logit_softcapping"};
    const auto expect_an_answer = [](const gguf_writer& w, const std::string& what) {
        const auto plan = plan_of(w);
        if (plan.ok()) return;
        const auto code = plan.error().code;
        EXPECT_TRUE(code == errc::model_malformed || code == errc::model_unsupported) << what;
        EXPECT_FALSE(plan.error().message.empty()) << what;
    };
    for (const std::string& family : dense_families())
        for (const char* scaling : {"none", "linear", "yarn", "llama3", "longrope"}) {
            gguf_writer base = small_model(family);
            base.text(family + ".rope.scaling.type", scaling);
            base.f32(family + ".rope.scaling.factor", 4);
            std::vector<std::string> integer_keys, real_keys(further_reals.begin(), further_reals.end());
            for (const char* key : further_integers) integer_keys.push_back(family + key);
            for (std::string& key : real_keys) key.insert(0, family);
            for (const auto& [key, value] : base.values)
                if (value[0] == 4) integer_keys.push_back(key);
            for (const std::string& key : integer_keys)
                for (const std::uint32_t n : integers) {
                    gguf_writer w = base;
                    w.u32(key, n);
                    expect_an_answer(w, key + " = " + std::to_string(n));
                }
            for (const std::string& key : real_keys)
                for (const float x : reals) {
                    gguf_writer w = base;
                    w.f32(key, x);
                    expect_an_answer(w, key + " = " + std::to_string(x));
                }
        }
}

TEST(families, gemma_alternates_windows) {
    gguf_writer w = small_model("gemma2", 32, 64, 6);
    w.u32("gemma2.context_length", 8192);
    auto groups = groups_of(w);
    ASSERT_EQ(groups.size(), 2u);
    EXPECT_EQ(groups[1].window, 4096) << "the first files had no key for it";
    EXPECT_EQ(groups[0].n_layers, 3);
    EXPECT_EQ(groups[1].n_layers, 3);
    w.u32("gemma2.attention.sliding_window", 64);
    w.u32("gemma2.attention.sliding_window_pattern", 3);
    groups = groups_of(w);
    ASSERT_EQ(groups.size(), 2u);
    EXPECT_EQ(groups[0].n_layers, 2);
    EXPECT_EQ(groups[1].window, 64);
    EXPECT_EQ(groups[1].n_layers, 4);
    groups = groups_of(w, 64);
    ASSERT_EQ(groups.size(), 1u) << "a window that covers the configured context is none";
    EXPECT_EQ(groups[0].window, 0);
    EXPECT_EQ(groups[0].n_layers, 6);
    EXPECT_EQ(groups_of(w, 65).size(), 2u);
}

TEST(families, mistral_and_phi3_see_a_window_in_every_layer) {
    for (const std::string f : {"llama", "phi3"}) {
        gguf_writer w = small_model(f);
        EXPECT_EQ(groups_of(w)[0].window, 0);
        w.u32(f + ".attention.sliding_window", 48);
        const auto groups = groups_of(w);
        ASSERT_EQ(groups.size(), 1u);
        EXPECT_EQ(groups[0].window, 48);
        w.u32(f + ".attention.sliding_window", 0);
        EXPECT_EQ(groups_of(w)[0].window, 0) << "0 says that there is none";
    }
}

std::vector<float> logits_of(const gguf_writer& w) {
    const std::string bytes = noisy_bytes(w);
    const auto file = model::gguf_file::parse(std::as_bytes(std::span(bytes)));
    EXPECT_TRUE(file.ok()) << file.error().message;
    kernels::pool threads(1);
    const auto m = model::model::load(*file, {.ops = *kernels::table("auto"), .threads = &threads, .max_rows = 8});
    EXPECT_TRUE(m.ok()) << m.error().message;
    paged_runner runner(**m);
    paged_sequence seq;
    const std::vector<model::token_id> tokens{1, 5, 2, 7, 3};
    return runner.feed_all(seq, tokens, 8);
}

TEST(families, the_largest_gemmas_scale_their_queries_otherwise) {
    // Width 64 and 2 heads of 16: 16^-0.5 usually, 32^-0.5 in the models with this many layers.
    const std::pair<const char*, std::uint32_t> largest[] = {{"gemma2", 46}, {"gemma3", 62}};
    for (const auto& [family, n_layers] : largest) {
        const auto with_scale = [&](std::uint32_t layers, float scale) {
            gguf_writer w = small_model(family, 64, 32, layers);
            if (scale != 0) w.f32(family + std::string(".attention.scale"), scale);
            return logits_of(w);
        };
        const float usual = 0.25f;
        const auto of_27b = static_cast<float>(1 / std::sqrt(32.0));
        EXPECT_EQ(with_scale(n_layers, 0), with_scale(n_layers, of_27b)) << family;
        EXPECT_NE(with_scale(n_layers, 0), with_scale(n_layers, usual)) << family;
        EXPECT_EQ(with_scale(4, 0), with_scale(4, usual)) << family;
    }
}

TEST(families, smollm3_does_not_rotate_every_fourth_layer) {
    // With a base that leaves the first three layers alike, only rotated layers notice another base.
    const auto with_base = [&](const char* family, std::uint32_t layers, float base) {
        gguf_writer w = small_model(family, 32, 64, layers);
        w.f32(std::string(family) + ".rope.freq_base", base);
        return logits_of(w);
    };
    EXPECT_EQ(with_base("smollm3", 3, 1e4f), with_base("llama", 3, 1e4f));
    EXPECT_NE(with_base("smollm3", 4, 1e4f), with_base("llama", 4, 1e4f));
}

TEST(families, fused_matrices_are_their_parts) {
    // A llama whose q, k, v, gate and up are phi3's rows: only the pairing of rotated values differs, so without
    // rotation (position 0) both give the same bits.
    const auto first_logits = [](const gguf_writer& w, const std::string& bytes) {
        const auto file = model::gguf_file::parse(std::as_bytes(std::span(bytes)));
        kernels::pool threads(1);
        const auto m = model::model::load(*file, {.ops = *kernels::table("auto"), .threads = &threads, .max_rows = 8});
        EXPECT_TRUE(m.ok()) << m.error().message << w.tensors.size();
        paged_runner runner(**m);
        paged_sequence seq;
        const std::vector<model::token_id> tokens{5};
        return runner.feed_all(seq, tokens, 8);
    };
    const gguf_writer fused = small_model("phi3"), apart = small_model("llama");
    const std::string from = noisy_bytes(fused);
    std::string to = apart.bytes();
    const auto offset = [](const gguf_writer& w, const std::string& name) {
        std::size_t at = w.header().size();
        for (const auto& t : w.tensors) {
            if (t.name == name) break;
            at += (t.bytes + 31) / 32 * 32;
        }
        return at;
    };
    for (const auto& t : apart.tensors) {
        std::string name = t.name;
        std::size_t skip = 0;
        const auto is = [&](const char* part) { return name.ends_with(part); };
        const std::string layer = name.substr(0, 6);
        if (is("attn_q.weight") || is("attn_k.weight") || is("attn_v.weight")) {
            skip = is("q.weight") ? 0 : is("k.weight") ? 32 * 32 * 2 : 48 * 32 * 2;
            name = layer + "attn_qkv.weight";
        } else if (is("ffn_gate.weight") || is("ffn_up.weight")) {
            skip = is("gate.weight") ? 0 : t.bytes;
            name = layer + "ffn_up.weight";
        }
        to.replace(offset(apart, t.name), t.bytes, from, offset(fused, name) + skip, t.bytes);
    }
    EXPECT_EQ(first_logits(fused, from), first_logits(apart, to));
}

}  // namespace
}  // namespace troupe::testing
