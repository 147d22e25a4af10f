#include "actors/session/parameters.hpp"

#include <gtest/gtest.h>

#include "tests/actors/session/fake_vocabulary.hpp"

namespace troupe::actors {
namespace {

using testing::fake_vocabulary;

resolve_input input() {
    resolve_input in;
    in.n_prompt = 10;
    in.n_ctx = 100;
    in.drawn_seed = 99;
    return in;
}

TEST(Parameters, RequestBeatsSessionBeatsConfigBeatsBuiltIn) {
    fake_vocabulary v;
    auto in = input();
    auto r = resolve(in, v);
    ASSERT_TRUE(r.ok());
    EXPECT_FLOAT_EQ(r->sequence.temperature, 0.8f);
    EXPECT_EQ(r->sequence.top_k, 40);
    in.defaults.temperature = 0.1;
    EXPECT_FLOAT_EQ(resolve(in, v)->sequence.temperature, 0.1f);
    in.session.temperature = 0.2;
    EXPECT_FLOAT_EQ(resolve(in, v)->sequence.temperature, 0.2f);
    in.request.temperature = 0.0;
    EXPECT_FLOAT_EQ(resolve(in, v)->sequence.temperature, 0.0f);
}

TEST(Parameters, SeedIsDrawnOnlyIfNobodyGivesOne) {
    fake_vocabulary v;
    auto in = input();
    EXPECT_EQ(resolve(in, v)->sequence.seed, 99u);
    in.request.seed = -1;
    EXPECT_EQ(resolve(in, v)->sequence.seed, 99u);
    in.request.seed = 5;
    EXPECT_EQ(resolve(in, v)->sequence.seed, 5u);
}

TEST(Parameters, WithoutMaxTokensTheContextIsTheEnd) {
    fake_vocabulary v;
    auto in = input();
    EXPECT_EQ(resolve(in, v)->sequence.max_tokens, 90);
    in.request.max_tokens = 500;
    EXPECT_EQ(resolve(in, v)->sequence.max_tokens, 90);
    in.request.max_tokens = 3;
    EXPECT_EQ(resolve(in, v)->sequence.max_tokens, 3);
}

TEST(Parameters, AFullContextIsATypedErrorWithTheNumbers) {
    fake_vocabulary v;
    auto in = input();
    in.n_prompt = 100;
    const auto r = resolve(in, v);
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().code, errc::context_length_exceeded);
    EXPECT_EQ(r.error().n_prompt_tokens, 100);
    EXPECT_EQ(r.error().n_ctx, 100);
    in.echo = true;
    in.request.max_tokens = 0;
    EXPECT_TRUE(resolve(in, v).ok()) << "echo alone needs no room for an answer";
    in.n_prompt = 101;
    EXPECT_FALSE(resolve(in, v).ok());
}

TEST(Parameters, UnknownIdsAndMissingFeaturesAreRefused) {
    fake_vocabulary v;
    auto in = input();
    in.request.logit_bias = {{{100000, 1.0}}};
    EXPECT_EQ(resolve(in, v).error().param, "logit_bias");
    in = input();
    in.request.stop_token_ids = {{-1}};
    EXPECT_EQ(resolve(in, v).error().param, "stop_token_ids");
    in = input();
    in.request.max_tokens = 0;
    EXPECT_EQ(resolve(in, v).error().param, "max_tokens");
}

TEST(Parameters, EndTokensComeFromTheVocabularyAndTheRequest) {
    fake_vocabulary v;
    auto in = input();
    in.request.stop_token_ids = {{65, 256}};
    EXPECT_EQ(resolve(in, v)->sequence.end_tokens, (std::vector<token_id>{65, 256}));
    in.request.ignore_eos = true;
    in.request.stop_token_ids.reset();
    EXPECT_TRUE(resolve(in, v)->sequence.end_tokens.empty());
}

TEST(Parameters, EverySamplerArrives) {
    fake_vocabulary v;
    auto in = input();
    auto& q = in.request;
    q.typical_p = 0.5, q.top_n_sigma = 1.5, q.xtc_probability = 0.25, q.xtc_threshold = 0.2, q.dynatemp_range = 0.5;
    q.dynatemp_exponent = 2, q.mirostat = 2, q.mirostat_tau = 4, q.mirostat_eta = 0.2, q.min_keep = 3;
    q.dry_multiplier = 0.8, q.dry_base = 2, q.dry_allowed_length = 4, q.dry_penalty_last_n = -1;
    q.dry_sequence_breakers = {{"a", "bc"}};
    q.logit_bias_text = {{{"ab", -3.0}}};
    q.post_sampling_probs = true;
    const auto r = resolve(in, v);
    ASSERT_TRUE(r.ok());
    const auto back = resolved_from_json(to_json(*r));
    ASSERT_TRUE(back.ok());
    for (const auto& s : {r->sequence, back->sequence}) {
        EXPECT_EQ(s.typical_p, 0.5f);
        EXPECT_EQ(s.top_n_sigma, 1.5f);
        EXPECT_EQ(s.xtc_probability, 0.25f);
        EXPECT_EQ(s.xtc_threshold, 0.2f);
        EXPECT_EQ(s.dynatemp_range, 0.5f);
        EXPECT_EQ(s.dynatemp_exponent, 2.0f);
        EXPECT_EQ(s.mirostat, 2);
        EXPECT_EQ(s.mirostat_tau, 4.0f);
        EXPECT_EQ(s.mirostat_eta, 0.2f);
        EXPECT_EQ(s.min_keep, 3);
        EXPECT_EQ(s.dry_multiplier, 0.8f);
        EXPECT_EQ(s.dry_base, 2.0f);
        EXPECT_EQ(s.dry_allowed_length, 4);
        EXPECT_EQ(s.dry_last_n, -1);
        EXPECT_EQ(unpack_ids(s.dry_breakers), (std::vector<token_id>{'a', -1, 'b', 'c', -1}));
        EXPECT_EQ(s.bias_ids, (std::vector<std::int32_t>{'a', 'b'}));
    }
    EXPECT_TRUE(r->sequence.post_sampling_logprobs);
}

TEST(Parameters, AnEmbeddingNeedsNoRoomForAnAnswer) {
    fake_vocabulary v;
    auto in = input();
    in.n_prompt = in.n_ctx;
    in.pool = pooling::mean;
    in.prompt_name = "input";
    EXPECT_EQ(resolve(in, v)->sequence.max_tokens, 0);
    ++in.n_prompt;
    EXPECT_EQ(resolve(in, v).error().param, "input");
}

TEST(Parameters, JsonKeepsEveryBit) {
    fake_vocabulary v;
    auto in = input();
    in.request.temperature = 0.1 + 0.2;
    in.request.top_p = 1.0 / 3;
    in.request.logit_bias = {{{65, -99.7}, {66, 1e-7}}};
    in.request.stop = {{"\n\n", "\xE2\x82\xAC"}};
    in.drawn_seed = 0xfedcba9876543210;
    auto r = resolve(in, v);
    const auto back = resolved_from_json(to_json(*r));
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(back->sequence.seed, in.drawn_seed);
    EXPECT_EQ(back->sequence.temperature, r->sequence.temperature);
    EXPECT_EQ(back->sequence.top_p, r->sequence.top_p);
    EXPECT_EQ(back->sequence.bias_values, r->sequence.bias_values);
    EXPECT_EQ(back->sequence.end_tokens, r->sequence.end_tokens);
    EXPECT_EQ(back->sequence.max_tokens, r->sequence.max_tokens);
    EXPECT_EQ(back->stop, r->stop);
    EXPECT_FALSE(resolved_from_json("{}").ok());
    EXPECT_FALSE(resolved_from_json("not json").ok());
}

TEST(Parameters, TitlesAreTheFirstLineCutAtAWord) {
    EXPECT_EQ(title_from("\n  Hello\nworld"), "Hello");
    EXPECT_EQ(title_from("   "), "");
    const auto t = title_from(std::string(50, 'a') + " bbbbb ccccccccccccccccc");
    EXPECT_EQ(t, std::string(50, 'a') + " bbbbb\u2026");
    std::string umlauts;
    for (int i = 0; i < 60; ++i) umlauts += "\u00e4";
    model::utf8_stream check;
    const auto cut = title_from(umlauts);
    EXPECT_EQ(check.push(cut), cut) << "not cut inside a code point";
}

}  // namespace
}  // namespace troupe::actors
