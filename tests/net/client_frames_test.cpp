#include "net/client_frames.hpp"

#include <gtest/gtest.h>

namespace troupe::net {
namespace {

template <class T> T frame(const std::string& text) {
    const auto p = parse_client_frame(text, 100);
    return std::get<T>(*p.frame);
}

TEST(client_frames, every_type) {
    EXPECT_EQ(frame<auth_frame>(R"({"type":"auth","key":"k"})").key, "k");
    const auto create = frame<create_frame>(
        R"({"type":"session.create","title":"t","settings":{"system":"s","temperature":0.1,"sampling":{"top_k":5}}})");
    EXPECT_EQ(create.title, "t");
    EXPECT_EQ(create.settings.system, "s");
    EXPECT_EQ(create.settings.params.temperature, 0.1);
    EXPECT_EQ(create.settings.params.top_k, 5);
    EXPECT_FALSE(frame<subscribe_frame>(R"({"type":"subscribe","session":"x"})").from.has_value());
    EXPECT_EQ(frame<subscribe_frame>(R"({"type":"subscribe","session":"x","from":7})").from, 7u);
    const auto message = frame<message_frame>(
        R"({"type":"message","session":"x","id":"m","content":"c","parent":"p","params":{"max_tokens":3}})");
    EXPECT_EQ(message.message.id, "m");
    EXPECT_EQ(message.message.parent, "p");
    EXPECT_EQ(message.message.params.max_tokens, 3);
    EXPECT_EQ(frame<regenerate_frame>(R"({"type":"regenerate","session":"x","message":"m"})").message, "m");
    EXPECT_EQ(frame<edit_frame>(R"({"type":"edit","session":"x","message":"m","content":"c"})").content, "c");
    EXPECT_EQ(frame<stop_frame>(R"({"type":"stop","session":"x"})").session, "x");
    EXPECT_TRUE(frame<ops_frame>(R"({"type":"ops.subscribe"})").on);
}

TEST(client_frames, errors_carry_the_request_id_where_it_can_be_read) {
    const auto p = parse_client_frame(R"({"type":"message","session":"x","request_id":"r"})", 0);
    EXPECT_EQ(p.request_id, "r");
    ASSERT_FALSE(p.frame.ok());
    EXPECT_EQ(p.frame.error().code, errc::invalid_request);
    EXPECT_NE(error_frame(p.frame.error(), p.request_id).find("\"request_id\":\"r\""), std::string::npos);
    EXPECT_EQ(ack_frame(""), R"({"type":"ack"})");
    EXPECT_FALSE(parse_client_frame(R"({"type":"stop","session":"x","request_id":5})", 0).frame.ok());
}

TEST(client_frames, cut_and_flipped_frames_never_crash) {
    const std::string good =
        R"({"type":"message","session":"x","id":"m","content":"cä","params":{"stop":["a"],"logit_bias":{"1":2}},"request_id":"r"})";
    for (std::size_t i = 0; i < good.size(); ++i) {
        (void)parse_client_frame(good.substr(0, i), 100);
        for (int bit = 0; bit < 8; ++bit) {
            auto flipped = good;
            flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
            (void)parse_client_frame(flipped, 100);
        }
    }
    EXPECT_TRUE(parse_client_frame(good, 100).frame.ok());
}

}  // namespace
}  // namespace troupe::net
