#include "net/llama_wire.hpp"

#include <gtest/gtest.h>

#include "net/body.hpp"

namespace troupe::net {
namespace {

result<llama_wire> read(const std::string& text) {
    const auto b = *json_body::parse(text);
    return read_llama_request(b.object, 100);
}

TEST(llama_wire, lengths) {
    EXPECT_EQ(read(R"({"prompt":"x"})")->request.params.max_tokens, std::nullopt);
    EXPECT_EQ(read(R"({"prompt":"x","n_predict":-1,"max_tokens":5})")->request.params.max_tokens, std::nullopt);
    EXPECT_EQ(read(R"({"prompt":"x","n_predict":7})")->request.params.max_tokens, 7);
    EXPECT_TRUE(read(R"({"prompt":"x","n_predict":0})")->request.prompt_only);
    EXPECT_EQ(read(R"({"prompt":"x","n_probs":3})")->request.params.n_logprobs, 3);
    EXPECT_EQ(read(R"({"prompt":"x","n_probs":0})")->request.params.n_logprobs, std::nullopt);
    EXPECT_EQ(read(R"({"prompt":"x","temperature":5})")->request.params.temperature, 5);
    EXPECT_EQ(read(R"({"prompt":"x","t_max_predict_ms":-1})")->t_max_predict_ms, 0);
}

TEST(llama_wire, final_object_and_selected_fields) {
    auto wire = *read(R"({"prompt":"x","n_probs":1,"return_tokens":true,"stop":["END"]})");
    llama_writer w(wire, "m", {}, 0, false);
    w.set_prompt("x");
    (void)w.partial({"m", 0, "a\n", 0, {{{"a\n", -0.5, 7}, {{"a\n", -0.5, 7}}}}, 1, {7}});
    const generation_done done{"m", "stop", "", {3, 1, 2}, {}, "word", "END"};
    const auto o = w.final(done).as_object();
    EXPECT_EQ(o.at("content").as_string(), "a\n");
    EXPECT_EQ(o.at("tokens"), (boost::json::value{7}));
    EXPECT_EQ(o.at("stop_type").as_string(), "word");
    EXPECT_EQ(o.at("stopping_word").as_string(), "END");
    EXPECT_TRUE(o.at("has_new_line").as_bool());
    EXPECT_EQ(o.at("tokens_cached").to_number<int>(), 2);
    EXPECT_EQ(o.at("completion_probabilities").as_array()[0].as_object().at("id").to_number<int>(), 7);
    wire.response_fields = {"content", "generation_settings/stop", "content/x", "nothing", ""};
    llama_writer chosen(wire, "m", {}, 0, false);
    EXPECT_EQ(chosen.final(done), (boost::json::value{{"content", ""}, {"stop", boost::json::array{"END"}}}));
}

}  // namespace
}  // namespace troupe::net
