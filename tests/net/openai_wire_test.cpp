#include "net/openai_wire.hpp"

#include <cmath>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include "net/body.hpp"

namespace troupe::net {
namespace {

result<completion_wire> chat(const std::string& text) {
    const auto b = *json_body::parse(text);
    return read_chat_request(b.object, 100);
}

result<completion_wire> completion(const std::string& text) {
    const auto b = *json_body::parse(text);
    return read_text_request(b.object, 100);
}

boost::json::object frame_of(const std::string& text) {
    EXPECT_TRUE(text.starts_with("data: ") && text.ends_with("\n\n")) << text;
    return boost::json::parse(text.substr(6, text.size() - 8)).as_object();
}

TEST(openai_wire, messages_and_their_extras) {
    const auto w =
        *chat(R"({"messages":[{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
        {"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},{"role":"tool","tool_call_id":"1","content":"r"}],"stream":true,
        "stream_options":{"include_usage":true},"user":"u","session_id":"ses_x"})");
    EXPECT_EQ(w.request.messages[0], (chat_message{"system", "ab", ""}));
    EXPECT_EQ(w.request.messages[1].extra, R"({"tool_calls":[{"id":"1"}]})");
    EXPECT_EQ(w.request.messages[2].extra, R"({"tool_call_id":"1"})");
    EXPECT_TRUE(w.stream && w.include_usage);
    EXPECT_EQ(w.user, "u");
    EXPECT_EQ(w.request.session_id, "ses_x");
    EXPECT_EQ(chat(R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})").error().code,
        errc::unsupported_parameter);
    EXPECT_FALSE(chat(R"({"messages":[{"role":"user","content":"x"}],"temperature":3})").ok());
}

TEST(openai_wire, prompts) {
    EXPECT_EQ(completion(R"({"prompt":"x"})")->request.prompt, "x");
    EXPECT_EQ(completion(R"({"prompt":["x"]})")->request.prompt, "x");
    EXPECT_EQ(*completion(R"({"prompt":[1,2]})")->request.prompt_ids, (std::vector<std::int32_t>{1, 2}));
    EXPECT_EQ(completion(R"({"prompt":"x"})")->request.params.max_tokens, 16);
    EXPECT_EQ(completion(R"({"prompt":"x","echo":true,"max_tokens":0})")->request.params.max_tokens, 0);
    EXPECT_FALSE(completion(R"({"prompt":"x","max_tokens":0})").ok());
    EXPECT_FALSE(completion(R"({"prompt":[100]})").ok());
    EXPECT_EQ(completion(R"({"prompt":[[1],[2]]})").error().code, errc::unsupported_parameter);
}

TEST(openai_wire, chunks_of_one_answer) {
    completion_writer w(
        *chat(R"({"messages":[{"role":"user","content":"x"}],"stream_options":{"include_usage":true}})"), "m");
    const auto first = frame_of(w.start());
    EXPECT_EQ(first.at("choices").as_array()[0].as_object().at("delta"),
        (boost::json::value{{"role", "assistant"}, {"content", ""}}));
    const auto second = frame_of(w.chunk({"m", 0, "hi", 0, {}, 1}));
    EXPECT_EQ(second.at("id"), first.at("id"));
    EXPECT_EQ(second.at("created"), first.at("created"));
    EXPECT_TRUE(second.at("usage").is_null());
    EXPECT_TRUE(second.at("choices").as_array()[0].as_object().at("finish_reason").is_null());
    const auto end = w.finish({"m", "stop", "", {3, 1, 0}, {}});
    EXPECT_TRUE(end.ends_with("data: [DONE]\n\n"));
    const auto usage_at = end.find("\n\n") + 2;
    const auto usage = frame_of(end.substr(usage_at, end.find("data: [DONE]") - usage_at));
    EXPECT_EQ(usage.at("choices"), boost::json::value(boost::json::array{}));
    EXPECT_EQ(usage.at("usage").as_object().at("total_tokens").to_number<int>(), 4);
}

TEST(openai_wire, whole_answers) {
    completion_writer w(*chat(R"({"messages":[{"role":"user","content":"x"}],"logprobs":true,"top_logprobs":1})"), "m");
    w.collect({"m", 0, "h", 0, {{{"h", -0.5, 1}, {{"h", -0.5, 1}}}}, 1});
    w.collect({"m", 1, "\xf0\x9f\x98\x80", 0, {{{"\xf0\x9f", -1, 2}, {}}, {{"\x98\x80", -1, 3}, {}}}, 3});
    const auto o = boost::json::parse(w.whole({"m", "length", "", {3, 3, 0}, {}})).as_object();
    const auto& c = o.at("choices").as_array()[0].as_object();
    EXPECT_EQ(c.at("message").as_object().at("content").as_string(), "h\xf0\x9f\x98\x80");
    EXPECT_EQ(c.at("finish_reason").as_string(), "length");
    const auto& content = c.at("logprobs").as_object().at("content").as_array();
    ASSERT_EQ(content.size(), 3u);
    EXPECT_EQ(content[1].as_object().at("bytes"), (boost::json::value{0xf0, 0x9f}));
    EXPECT_EQ(content[0].as_object().at("top_logprobs").as_array().size(), 1u);
}

TEST(openai_wire, a_token_without_probability_is_null) {
    completion_writer w(*completion(R"({"prompt":"x","logprobs":1,"echo":true,"max_tokens":0})"), "m");
    w.collect({"m", 0, "ab", 0, {{{"a", std::nan(""), 1}, {}}, {{"b", -0.25, 2}, {{"b", -0.25, 2}}}}, 2});
    const auto o = boost::json::parse(w.whole({"m", "length", "", {2, 0, 0}, {}})).as_object();
    const auto& logprobs = o.at("choices").as_array()[0].as_object().at("logprobs").as_object();
    EXPECT_TRUE(logprobs.at("token_logprobs").as_array()[0].is_null());
    EXPECT_DOUBLE_EQ(logprobs.at("token_logprobs").as_array()[1].as_double(), -0.25);
}

TEST(openai_wire, failure_ends_the_stream) {
    const auto text = completion_writer::failure(error{errc::executor_poisoned, "x", ""});
    EXPECT_TRUE(text.ends_with("}\n\ndata: [DONE]\n\n"));
    EXPECT_NE(text.find("\"code\":\"executor_poisoned\""), std::string::npos);
}

}  // namespace
}  // namespace troupe::net
