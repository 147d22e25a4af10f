// Rotary frequencies of every scaling against the papers' formulas written another way, and what a file may claim about
// them.
#include "model/architectures/rope.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "model/architectures/builder.hpp"
#include "model/formats/gguf.hpp"
#include "tests/support/gguf_writer.hpp"

namespace troupe::testing {
namespace {

using model::rope_frequencies;
using model::rope_scaling;
using model::rope_scaling_type;

/// exp(-2i/d ln base), the unstretched frequency.
double plain(double base, double dims, std::size_t i) {
    return std::exp(-2.0 * static_cast<double>(i) / dims * std::log(base));
}

void expect_close(double actual, double expected, const char* what, std::size_t i) {
    EXPECT_NEAR(actual, expected, 1e-13 * std::abs(expected)) << what << ' ' << i;
}

TEST(rope, unscaled_and_linear) {
    const auto freq = rope_frequencies(1e4, 64, {});
    ASSERT_EQ(freq.size(), 32u);
    EXPECT_EQ(freq[0], 1.0);
    for (std::size_t i = 0; i < 32; ++i) expect_close(freq[i], plain(1e4, 64, i), "plain", i);
    const auto slower = rope_frequencies(1e6, 128, {.type = rope_scaling_type::linear, .factor = 8});
    for (std::size_t i = 0; i < 64; ++i) expect_close(slower[i], plain(1e6, 128, i) / 8, "linear", i);
}

TEST(rope, divisors_apply_to_each_frequency) {
    rope_scaling s;
    for (int i = 0; i < 4; ++i) s.divisors.push_back(1 + i);
    const auto freq = rope_frequencies(100, 8, s);
    for (std::size_t i = 0; i < 4; ++i)
        expect_close(freq[i], plain(100, 8, i) / static_cast<double>(1 + i), "divided", i);
}

TEST(rope, yarn_keeps_fast_frequencies_and_stretches_slow_ones) {
    // DeepSeek-V2-Lite: 64 dims, base 10000, original context 4096, factor 40, beta 32 and 1. A frequency makes
    // 4096 f / (2 pi) turns; the ramp runs over whole indices, from the last one with at least 32 turns to the first
    // one with at most 1.
    const rope_scaling s{.type = rope_scaling_type::yarn, .factor = 40, .original_context = 4096};
    const auto freq = rope_frequencies(1e4, 64, s);
    std::size_t first = 0, last = 0;
    for (std::size_t i = 0; i < 32; ++i) {
        const double turns = 4096 * plain(1e4, 64, i) / (2 * std::numbers::pi);
        if (turns >= 32) first = i;
        if (turns >= 1) last = i + 1;
    }
    EXPECT_EQ(first, 10u);
    EXPECT_EQ(last, 23u);
    for (std::size_t i = 0; i < 32; ++i) {
        const double f = plain(1e4, 64, i);
        const double stretched = i <= first  ? 0
                                 : i >= last ? 1
                                             : static_cast<double>(i - first) / static_cast<double>(last - first);
        expect_close(freq[i], f * (1 - stretched) + f / 40 * stretched, "yarn", i);
    }
    EXPECT_NEAR(model::rope_magnitude(s), 1 + 0.1 * std::log(40), 1e-15);
    EXPECT_NEAR(model::yarn_magnitude(40, 0.707), 1.26080, 5e-6) << "DeepSeek's mscale; its square is about 1.59";
    EXPECT_EQ(model::yarn_magnitude(1, 0.707), 1.0);
    EXPECT_EQ(model::yarn_magnitude(0.5, 0.707), 1.0);
}

TEST(rope, yarn_ramp_stays_within_the_frequencies) {
    // A short original context puts the ramp's start below index 0, a long one its end behind the last index.
    for (const double original : {4.0, 64.0, 1e9}) {
        const rope_scaling s{.type = rope_scaling_type::yarn, .factor = 4, .original_context = original};
        const auto freq = rope_frequencies(1e4, 64, s);
        for (std::size_t i = 0; i < 32; ++i) {
            const double f = plain(1e4, 64, i);
            EXPECT_LE(freq[i], f * (1 + 1e-13)) << original << ' ' << i;
            EXPECT_GE(freq[i], f / 4 * (1 - 1e-13)) << original << ' ' << i;
        }
    }
    const auto untouched = rope_frequencies(
        1e4, 64, {.type = rope_scaling_type::yarn, .factor = 4, .original_context = 1e9, .extrapolation = 1});
    expect_close(untouched[31], plain(1e4, 64, 31), "all waves fit into the original context", 31);
}

TEST(rope, yarn_magnitude_follows_the_file) {
    rope_scaling s{.type = rope_scaling_type::yarn, .factor = 4};
    s.attn_factor = 0.5;
    EXPECT_NEAR(model::rope_magnitude(s), 0.5 * (1 + 0.1 * std::log(4)), 1e-15);
    s.attn_magnitude = 1.25;
    EXPECT_EQ(model::rope_magnitude(s), 1.25);
}

TEST(rope, llama3_mixes_by_wavelength) {
    // Llama 3.1's own numbers, in the wavelength form of the model card.
    const rope_scaling s{.type = rope_scaling_type::llama3, .factor = 8, .original_context = 8192};
    const auto freq = rope_frequencies(5e5, 128, s);
    int kept = 0, stretched = 0, mixed = 0;
    for (std::size_t i = 0; i < 64; ++i) {
        const double f = plain(5e5, 128, i), wavelength = 2 * std::numbers::pi / f;
        double expected = 0;
        if (wavelength < 8192.0 / 4) {
            expected = f;
            ++kept;
        } else if (wavelength > 8192.0 / 1) {
            expected = f / 8;
            ++stretched;
        } else {
            const double smooth = (8192 / wavelength - 1) / (4 - 1);
            expected = (1 - smooth) * f / 8 + smooth * f;
            ++mixed;
        }
        EXPECT_NEAR(freq[i], expected, 1e-12 * expected) << i;
    }
    EXPECT_TRUE(kept > 0 && stretched > 0 && mixed > 0);
}

TEST(rope, longrope_magnitude) {
    rope_scaling s{.type = rope_scaling_type::longrope, .original_context = 4096, .trained_context = 131072};
    EXPECT_NEAR(model::rope_magnitude(s), 1.1902380714238083, 1e-12) << "Phi-3 128k: sqrt(1 + ln 32 / ln 4096)";
    s.trained_context = 4096;
    EXPECT_EQ(model::rope_magnitude(s), 1.0);
    s.attn_factor = 1.19;
    EXPECT_EQ(model::rope_magnitude(s), 1.19);
    s.attn_factor.reset();
    s.original_context = 1;
    s.trained_context = 131072;
    EXPECT_EQ(model::rope_magnitude(s), 1.0) << "no division by ln 1";
}

/// What a file with these keys and 8 rotated dims of 16 makes of it.
struct reading {
    model::rope_spec spec;
    result<void> end;
};
reading read(gguf_writer w, std::int32_t n_ctx = 0, double base = 1e4) {
    w.text("general.architecture", "x");
    for (const char* key : {"x.block_count", "x.embedding_length", "x.feed_forward_length", "x.attention.head_count"})
        w.u32(key, 1);
    w.u32("x.context_length", 4096);
    w.u32("x.attention.key_length", 16);
    w.u32("x.rope.dimension_count", 8);
    w.f32("x.attention.layer_norm_rms_epsilon", 1e-5f);
    w.add("token_embd.weight", {1, 1});
    const std::string bytes = w.bytes();
    const auto file = model::gguf_file::parse(std::as_bytes(std::span(bytes)));
    EXPECT_TRUE(file.ok());
    model::builder b(**file, "x", kernels::dtype::f16, n_ctx);
    model::embedding e;
    b.embed(e, "token_embd.weight", 1, 1);
    b.read_dims();
    const auto scaling = b.read_rope_scaling(16);
    reading r{b.read_rope(base, scaling, 16, kernels::rope_pairs::halves), {}};
    r.end = b.finish();
    return r;
}

TEST(rope_metadata, scaling_keys) {
    gguf_writer w;
    EXPECT_TRUE(read(w).end.ok());
    EXPECT_EQ(read(w).spec.half(), 4);
    w.f32("x.rope.scale_linear", 2);
    EXPECT_EQ(read(w).spec.inv_freq[0], 0.5) << "older than rope.scaling.type";
    w.f32("x.rope.scaling.factor", 4);
    EXPECT_EQ(read(w).spec.inv_freq[0], 0.25) << "a factor without a type is linear";
    w.text("x.rope.scaling.type", "none");
    EXPECT_EQ(read(w).spec.inv_freq[0], 1.0);
    w.text("x.rope.scaling.type", "yarn");
    w.u32("x.rope.scaling.original_context_length", 1024);
    auto r = read(w);
    EXPECT_TRUE(r.end.ok());
    EXPECT_EQ(r.spec.inv_freq[0], 1.0);
    EXPECT_DOUBLE_EQ(r.spec.inv_freq[3], 1e-3 / 4);
    EXPECT_NEAR(r.spec.magnitude, 1 + 0.1 * std::log(4), 1e-15);
    w.text("x.rope.scaling.type", "llama3");
    EXPECT_DOUBLE_EQ(read(w).spec.inv_freq[3], 1e-3 / 4);
    EXPECT_EQ(read(w).spec.magnitude, 1.0);
}

TEST(rope_metadata, what_is_wrong_is_named) {
    const auto refused = [](gguf_writer w, errc code, const char* named, double base = 1e4) {
        const auto end = read(std::move(w), 0, base).end;
        ASSERT_FALSE(end.ok()) << named;
        EXPECT_EQ(end.error().code, code) << end.error().message;
        EXPECT_NE(end.error().message.find(named), std::string::npos) << end.error().message;
    };
    gguf_writer w;
    w.text("x.rope.scaling.type", "dynamic");
    refused(w, errc::model_unsupported, "'dynamic'");
    w.text("x.rope.scaling.type", "yarn");
    refused(w, errc::model_malformed, "rope.scaling.factor");
    w.f32("x.rope.scaling.factor", 0);
    refused(w, errc::model_malformed, "rope.scaling.factor");
    w.f32("x.rope.scaling.factor", 4);
    refused(w, errc::model_malformed, "rope base of 1", 1.0);
    w.f32("x.rope.scaling.yarn_beta_fast", -1);
    refused(w, errc::model_malformed, "yarn_beta_fast");
    w.f32("x.rope.scaling.yarn_beta_fast", 32);
    w.u32("x.rope.scaling.original_context_length", 0);
    refused(w, errc::model_malformed, "original_context_length");
    w.u32("x.rope.scaling.original_context_length", 1024);
    w.f32("x.rope.scaling.attn_factor", 0);
    refused(w, errc::model_malformed, "attn_factor");
    gguf_writer l;
    l.text("x.rope.scaling.type", "llama3");
    l.f32("x.rope.scaling.factor", 8);
    l.f32("x.rope.scaling.low_freq_factor", 4);
    refused(l, errc::model_malformed, "low_freq_factor < high_freq_factor");
    l.text("x.rope.scaling.type", "longrope");
    refused(l, errc::model_malformed, "rope_factors_long.weight");
    l.add("rope_factors_long.weight", {4});
    refused(l, errc::model_malformed, "rope_factors_short.weight");
    l.add("rope_factors_short.weight", {4});
    refused(l, errc::model_malformed, "impossible divisor");
    l.find("rope_factors_short.weight").shape = {2};
    refused(l, errc::model_malformed, "impossible divisor");
}

}  // namespace
}  // namespace troupe::testing
