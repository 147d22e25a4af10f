#include "net/params.hpp"

#include <gtest/gtest.h>

#include "net/body.hpp"

namespace troupe::net {
namespace {

result<generation_params> read(const std::string& text, param_rules rules = {2, 100, false}) {
    const auto b = *json_body::parse(text);
    return read_params(b.object, rules);
}

TEST(params, ends_of_the_ranges) {
    struct row {
        const char* good;
        const char* bad;
    };
    for (const auto& [good, bad] :
        {row{R"({"temperature":2})", R"({"temperature":2.01})"}, row{R"({"temperature":0})", R"({"temperature":-0.1})"},
            row{R"({"top_p":1})", R"({"top_p":0})"}, row{R"({"min_p":0})", R"({"min_p":1.1})"},
            row{R"({"top_k":-1})", R"({"top_k":-2})"}, row{R"({"repeat_penalty":2})", R"({"repeat_penalty":0})"},
            row{R"({"repetition_penalty":0.5})", R"({"repetition_penalty":2.1})"},
            row{R"({"presence_penalty":-2})", R"({"presence_penalty":-2.1})"},
            row{R"({"max_tokens":1})", R"({"max_tokens":0})"},
            row{R"({"max_completion_tokens":5})", R"({"max_completion_tokens":-5})"},
            row{R"({"seed":-9223372036854775808})", R"({"seed":1e30})"}, row{R"({"stop":"x"})", R"({"stop":""})"},
            row{R"({"stop":[]})", R"({"stop":[5]})"}, row{R"({"stop_token_ids":[99]})", R"({"stop_token_ids":[100]})"},
            row{R"({"logit_bias":{"99":-100}})", R"({"logit_bias":{"100":1}})"},
            row{R"({"logit_bias":[[1,false]]})", R"({"logit_bias":[[1,true]]})"},
            row{R"({"logprobs":true,"top_logprobs":20})", R"({"logprobs":true,"top_logprobs":21})"},
            row{R"({"logprobs":false})", R"({"logprobs":5})"},
            row{R"({"chat_template_kwargs":{}})", R"({"chat_template_kwargs":5})"},
            row{R"({"typical_p":0.2})", R"({"typical_p":0})"}, row{R"({"top_n_sigma":-1})", R"({"top_n_sigma":-2})"},
            row{R"({"min_keep":0})", R"({"min_keep":-1})"},
            row{R"({"xtc_probability":1})", R"({"xtc_probability":1.1})"},
            row{R"({"xtc_threshold":0.5})", R"({"xtc_threshold":-0.5})"},
            row{R"({"dynatemp_range":1.5})", R"({"dynatemp_range":3})"},
            row{R"({"dynatemp_exponent":2})", R"({"dynatemp_exponent":-1})"},
            row{R"({"dry_multiplier":0.8})", R"({"dry_multiplier":-1})"},
            row{R"({"dry_base":1.75})", R"({"dry_base":"x"})"},
            row{R"({"dry_allowed_length":3})", R"({"dry_allowed_length":-1})"},
            row{R"({"dry_penalty_last_n":-1})", R"({"dry_penalty_last_n":-2})"},
            row{R"({"dry_sequence_breakers":["a"]})", R"({"dry_sequence_breakers":[""]})"},
            row{R"({"mirostat":2})", R"({"mirostat":3})"}, row{R"({"mirostat_tau":5})", R"({"mirostat_tau":-1})"},
            row{R"({"mirostat_eta":0.1})", R"({"mirostat_eta":1.1})"},
            row{R"({"post_sampling_probs":true})", R"({"post_sampling_probs":1})"},
            row{R"({"logit_bias":[["hi",-1]]})", R"({"logit_bias":[["hi",-101]]})"},
            row{R"({"seed":9223372036854775807})", R"({"seed":-184467440737095516160})"},
            row{R"({"seed":1})", R"({"seed":9223372036854775808})"},
            row{R"({"ignore_eos":true})", R"({"ignore_eos":1})"}}) {
        EXPECT_TRUE(read(good).ok()) << good;
        const auto r = read(bad);
        ASSERT_FALSE(r.ok()) << bad;
        EXPECT_EQ(r.error().code, errc::invalid_request) << bad;
        EXPECT_FALSE(r.error().param.empty()) << bad;
    }
}

TEST(params, null_and_absent_are_the_same) {
    EXPECT_EQ(*read(R"({"temperature":null,"stop":null,"logit_bias":null,"seed":null})"), generation_params{});
    EXPECT_EQ(*read("{}"), generation_params{});
}

TEST(params, values_arrive) {
    const auto p = *read(
        R"({"temperature":0.5,"top_k":3,"stop":["a","b"],"logit_bias":{"7":1.5},"logprobs":true,"seed":9,"max_tokens":4})");
    EXPECT_EQ(p.temperature, 0.5);
    EXPECT_EQ(p.top_k, 3);
    EXPECT_EQ(*p.stop, (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(p.logit_bias->at(0), (std::pair<std::int32_t, double>{7, 1.5}));
    EXPECT_EQ(p.n_logprobs, 0);
    EXPECT_EQ(p.seed, 9);
    EXPECT_EQ(p.max_tokens, 4);
}

TEST(params, what_is_not_built_is_refused_by_name) {
    const auto refuse = [](const std::string& text) {
        const auto b = *json_body::parse(text);
        return refuse_unbuilt(b.object);
    };
    for (const auto* text :
        {R"({"tools":[{}]})", R"({"tool_choice":"required"})", R"({"guided_regex":"x"})", R"({"suffix":"x"})",
            R"({"bad_words":["x"]})", R"({"prompt_logprobs":0.5})", R"({"use_beam_search":true})", R"({"tfs":0.5})",
            R"({"add_generation_prompt":false})", R"({"modalities":["text","audio"]})", R"({"samplers":["top_k"]})"}) {
        const auto r = refuse(text);
        ASSERT_FALSE(r.ok()) << text;
        EXPECT_EQ(r.error().code, errc::unsupported_parameter) << text;
    }
    for (const auto* text : {"{}", R"({"tools":[]})", R"({"tools":null})", R"({"response_format":{"type":"text"}})",
             R"({"tool_choice":"none"})", R"({"something_new":1})",
             R"({"tfs":1.0,"length_penalty":1,"top_a":0,"use_beam_search":false,"add_generation_prompt":true})",
             R"({"modalities":["text"],"bad_words":[],"suffix":"","samplers":null})"})
        EXPECT_TRUE(refuse(text).ok()) << text;
}

TEST(params, choices_and_fields_that_change_nothing) {
    const auto with = [](const std::string& text, auto use) {
        const auto b = *json_body::parse(text);
        return use(b.object);
    };
    EXPECT_EQ(*with(R"({"n":16})", &read_choices), 16);
    EXPECT_EQ(*with(R"({"n_cmpl":3})", &read_choices), 3);
    EXPECT_EQ(*with("{}", &read_choices), 1);
    EXPECT_EQ(with(R"({"n":0})", &read_choices).error().param, "n");
    EXPECT_EQ(with(R"({"n":2,"best_of":3})", &read_choices).error().code, errc::unsupported_parameter);
    EXPECT_TRUE(with(R"({"n":2,"best_of":2})", &read_choices).ok());
    EXPECT_EQ(with(R"({"n":2})", &refuse_choices).error().param, "n");
    EXPECT_TRUE(with(R"({"cache_prompt":true,"id_slot":-1,"user":"x","metadata":{}})", &check_ignored).ok());
    EXPECT_EQ(with(R"({"cache_prompt":1})", &check_ignored).error().param, "cache_prompt");
    EXPECT_EQ(with(R"({"id_slot":"a"})", &check_ignored).error().param, "id_slot");
}

}  // namespace
}  // namespace troupe::net
