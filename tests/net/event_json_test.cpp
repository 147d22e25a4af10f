#include "net/event_json.hpp"

#include <gtest/gtest.h>

namespace troupe::net {
namespace {

TEST(event_json, frames_of_the_contract) {
    const auto text = [](event_payload p, std::string_view rid = "") {
        return event_json(event{"ses_1", 7, std::move(p)}, rid);
    };
    EXPECT_EQ(text(delta_event{"m", 3, "ab\"", 5, {}, 0}),
        R"({"type":"delta","session":"ses_1","seq":7,"message":"m","offset":3,"text":"ab\"","from_seq":5})");
    EXPECT_EQ(text(generation_paused{"m", "executor_restart"}),
        R"({"type":"generation.paused","session":"ses_1","seq":7,"message":"m","reason":"executor_restart"})");
    EXPECT_EQ(text(generation_queued{"m", 2, {}}),
        R"({"type":"generation.queued","session":"ses_1","seq":7,"message":"m","position":2})");
    EXPECT_EQ(text(session_deleted{}), R"({"type":"session.deleted","session":"ses_1","seq":7})");
    EXPECT_EQ(text(message_created{{"m", "", "user", "hi", 12, "", {}}}, "r1"),
        R"({"type":"message.created","session":"ses_1","seq":7,"message":{"id":"m","parent":null,"role":"user","content":"hi","created":12},"request_id":"r1"})");
    EXPECT_EQ(event_json(event{"", 0, degraded_event{"degraded", "why"}}, ""),
        R"({"type":"degraded","level":"degraded","reason":"why"})");
}

TEST(event_json, snapshot_has_the_fields_of_the_contract) {
    snapshot_event s;
    s.seq = 9;
    s.info.id = "ses_1";
    s.info.title = "t";
    s.messages.push_back({"a", "", "user", "q", 1, "", {}});
    s.messages.push_back({"b", "a", "assistant", "", 2, "", error{errc::executor_poisoned, "bad", ""}});
    s.leaf = "b";
    s.generating = generating_view{"b", "so far"};
    const auto o = snapshot_json(s);
    EXPECT_EQ(o.at("seq").to_number<int>(), 9);
    EXPECT_EQ(o.at("leaf").as_string(), "b");
    EXPECT_EQ(o.at("generating").as_object().at("text").as_string(), "so far");
    EXPECT_EQ(
        o.at("messages").as_array()[1].as_object().at("error").as_object().at("code").as_string(), "executor_poisoned");
    EXPECT_EQ(o.at("session_info").as_object().at("title").as_string(), "t");
}

TEST(event_json, timings_are_rates_of_their_counts) {
    timing_counts t;
    t.prompt_n = 10;
    t.prompt_ms = 100;
    t.predicted_n = 5;
    t.predicted_ms = 50;
    const auto o = timings_json(t, {14, 5, 4});
    EXPECT_DOUBLE_EQ(o.at("prompt_per_second").as_double(), 100);
    EXPECT_DOUBLE_EQ(o.at("predicted_per_token_ms").as_double(), 10);
    EXPECT_EQ(o.at("cache_n").to_number<int>(), 4);
    EXPECT_DOUBLE_EQ(timings_json({}, {}).at("predicted_per_second").as_double(), 0);
}

}  // namespace
}  // namespace troupe::net
