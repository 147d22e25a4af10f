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
    for (const auto* text : {R"({"tools":[{}]})", R"({"tool_choice":"required"})", R"({"grammar":"x"})",
             R"({"response_format":{"type":"json_object"}})", R"({"n":2})", R"({"mirostat":2})", R"({"suffix":"x"})"}) {
        const auto r = refuse(text);
        ASSERT_FALSE(r.ok()) << text;
        EXPECT_EQ(r.error().code, errc::unsupported_parameter) << text;
    }
    for (const auto* text : {"{}", R"({"tools":[]})", R"({"tools":null})", R"({"n":1})",
             R"({"response_format":{"type":"text"}})", R"({"tool_choice":"none"})", R"({"mirostat":0})",
             R"({"xtc_probability":0.0})", R"({"best_of":1})", R"({"something_new":1})"})
        EXPECT_TRUE(refuse(text).ok()) << text;
}

}  // namespace
}  // namespace troupe::net
