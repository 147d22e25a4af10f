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

std::string finished(completion_writer& w, const generation_done& d) {
    w.done(0, d);
    return w.whole();
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
    const auto prompts = [](const std::string& text) { return completion(text)->prompts; };
    const prompt_pieces x{"x"}, one_two{std::vector<std::int32_t>{1, 2}}, one{std::vector<std::int32_t>{1}},
        mixed{std::vector<std::int32_t>{1}, "x", std::vector<std::int32_t>{2}};
    EXPECT_EQ(prompts(R"({"prompt":"x"})"), (std::vector<prompt_pieces>{x}));
    EXPECT_EQ(prompts(R"({"prompt":["x"]})"), (std::vector<prompt_pieces>{x}));
    EXPECT_EQ(prompts(R"({"prompt":["x","x"]})"), (std::vector<prompt_pieces>{x, x}));
    EXPECT_EQ(prompts(R"({"prompt":[1,2]})"), (std::vector<prompt_pieces>{one_two}));
    EXPECT_EQ(prompts(R"({"prompt":[[1],[1,2]]})"), (std::vector<prompt_pieces>{one, one_two}));
    EXPECT_EQ(prompts(R"({"prompt":[1,"x",2]})"), (std::vector<prompt_pieces>{mixed}));
    EXPECT_EQ(prompts(R"({"prompt":["x",[1,"x",2]]})"), (std::vector<prompt_pieces>{x, mixed}));
    for (const auto* bad : {R"({})", R"({"prompt":5})", R"({"prompt":[]})", R"({"prompt":[[]]})", R"({"prompt":[1.5]})",
             R"({"prompt":[[1],2]})", R"({"prompt":[true]})"})
        EXPECT_EQ(completion(bad).error().param, "prompt") << bad;
    EXPECT_EQ(completion(R"({"prompt":"x"})")->request.params.max_tokens, 16);
    EXPECT_EQ(completion(R"({"prompt":"x","echo":true,"max_tokens":0})")->request.params.max_tokens, 0);
    EXPECT_FALSE(completion(R"({"prompt":"x","max_tokens":0})").ok());
    EXPECT_FALSE(completion(R"({"prompt":[100]})").ok());
    const auto w = *completion(R"({"prompt":["x","y"],"n":2,"best_of":2})");
    const auto parts = parts_of(w.request, w.prompts, w.n);
    ASSERT_EQ(parts.requests.size(), 4u);
    EXPECT_EQ(parts.requests[3].choice, 1);
    EXPECT_EQ(parts.prompts[1], x);
    EXPECT_EQ(parts.prompts[2], prompt_pieces{"y"});
    EXPECT_EQ(completion(R"({"prompt":"x","best_of":2})").error().param, "best_of");
    EXPECT_EQ(completion(R"({"prompt":"x","n":17})").error().param, "n");
    EXPECT_EQ(completion(R"({"prompt":"x","session_id":"s"})").error().param, "session_id");
}

TEST(openai_wire, chunks_of_one_answer) {
    completion_writer w(
        *chat(R"({"messages":[{"role":"user","content":"x"}],"stream_options":{"include_usage":true}})"), "m");
    const auto both = w.chunk(0, {"m", 0, "hi", 0, {}, 1});
    const auto first = frame_of(both.substr(0, both.find("\n\n") + 2));
    EXPECT_EQ(first.at("choices").as_array()[0].as_object().at("delta"),
        (boost::json::value{{"role", "assistant"}, {"content", ""}}));
    const auto second = frame_of(both.substr(both.find("\n\n") + 2));
    EXPECT_EQ(second.at("id"), first.at("id"));
    EXPECT_EQ(second.at("created"), first.at("created"));
    EXPECT_TRUE(second.at("usage").is_null());
    EXPECT_TRUE(second.at("choices").as_array()[0].as_object().at("finish_reason").is_null());
    auto end = w.finish(0, {"m", "stop", "", {3, 1, 0}, {}, {}, {}});
    end += w.end();
    EXPECT_TRUE(end.ends_with("data: [DONE]\n\n"));
    const auto usage_at = end.find("\n\n") + 2;
    const auto usage = frame_of(end.substr(usage_at, end.find("data: [DONE]") - usage_at));
    EXPECT_EQ(usage.at("choices"), boost::json::value(boost::json::array{}));
    EXPECT_EQ(usage.at("usage").as_object().at("total_tokens").to_number<int>(), 4);
}

TEST(openai_wire, whole_answers) {
    completion_writer w(*chat(R"({"messages":[{"role":"user","content":"x"}],"logprobs":true,"top_logprobs":1})"), "m");
    w.collect(0, {"m", 0, "h", 0, {{{"h", -0.5, 1}, {{"h", -0.5, 1}}}}, 1});
    w.collect(0, {"m", 1, "\xf0\x9f\x98\x80", 0, {{{"\xf0\x9f", -1, 2}, {}}, {{"\x98\x80", -1, 3}, {}}}, 3});
    const auto o = boost::json::parse(finished(w, {"m", "length", "", {3, 3, 0}, {}, {}, {}})).as_object();
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
    w.collect(0, {"m", 0, "ab", 0, {{{"a", std::nan(""), 1}, {}}, {{"b", -0.25, 2}, {{"b", -0.25, 2}}}}, 2});
    const auto o = boost::json::parse(finished(w, {"m", "length", "", {2, 0, 0}, {}, {}, {}})).as_object();
    const auto& logprobs = o.at("choices").as_array()[0].as_object().at("logprobs").as_object();
    EXPECT_TRUE(logprobs.at("token_logprobs").as_array()[0].is_null());
    EXPECT_DOUBLE_EQ(logprobs.at("token_logprobs").as_array()[1].as_double(), -0.25);
}

TEST(openai_wire, usage_counts_a_prompt_once_and_every_choice) {
    const auto wire = *completion(R"({"prompt":["x","y"],"n":2})");
    completion_writer w(wire, "m");
    for (std::size_t part = 0; part < 4; ++part) {
        w.collect(part, {"m", 0, std::to_string(part), 0, {}, 1});
        w.done(part, {"m", "length", "", {10 + static_cast<std::int64_t>(part / 2), 5, 0}, {}, {}, {}});
    }
    const auto o = boost::json::parse(w.whole()).as_object();
    const auto& usage = o.at("usage").as_object();
    EXPECT_EQ(usage.at("prompt_tokens").to_number<int>(), 21);
    EXPECT_EQ(usage.at("completion_tokens").to_number<int>(), 20);
    const auto& choices = o.at("choices").as_array();
    ASSERT_EQ(choices.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(choices[i].as_object().at("index").to_number<std::size_t>(), i);
        EXPECT_EQ(choices[i].as_object().at("text").as_string(), std::to_string(i));
    }
}

TEST(openai_wire, older_logprobs) {
    completion_writer w(*completion(R"({"prompt":"x","logprobs":2})"), "m");
    w.collect(0, {"m", 0, "\xc3\xa4 b", 0,
                     {{{"\xc3", -1, 1}, {{"q", -0.5, 9}, {"\xc3", -1, 1}}, 1}, {{"\xa4", -0.1, 2}, {}, 0},
                         {{" b", -2, 3}, {{" b", -0.5, 4}}, 2}, {{"</s>", -3, 5}, {}, 0, true}},
                     4});
    const auto o = boost::json::parse(finished(w, {"m", "stop", "", {1, 3, 0}, {}, {}, {}})).as_object();
    const auto& l = o.at("choices").as_array()[0].as_object().at("logprobs").as_object();
    EXPECT_EQ(l.at("tokens"), (boost::json::value{"bytes:\\xc3", "bytes:\\xa4", " b", "</s>"}));
    EXPECT_EQ(l.at("text_offset"), (boost::json::value{0, 1, 1, 3}));
    const auto& top = l.at("top_logprobs").as_array();
    EXPECT_EQ(top[0].as_object().size(), 2u);
    EXPECT_EQ(top[1].as_object().size(), 1u) << "the token itself is always there";
    EXPECT_DOUBLE_EQ(top[2].as_object().at(" b").as_double(), -0.5) << "of one name the likelier counts";
}

TEST(openai_wire, failure_ends_the_stream) {
    const auto text = error_frames(error{errc::executor_poisoned, "x", ""});
    EXPECT_TRUE(text.ends_with("}\n\ndata: [DONE]\n\n"));
    EXPECT_NE(text.find("\"code\":\"executor_poisoned\""), std::string::npos);
}

}  // namespace
}  // namespace troupe::net
