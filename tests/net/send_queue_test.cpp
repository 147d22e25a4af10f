#include "net/send_queue.hpp"

#include <boost/json.hpp>
#include <gtest/gtest.h>

namespace troupe::net {
namespace {

event_ptr delta(std::uint64_t seq, std::uint64_t offset, std::string text) {
    return std::make_shared<event>(event{"s", seq, delta_event{"m", offset, std::move(text), 0, {}, 0}});
}

TEST(send_queue, keeps_order_below_the_bound) {
    send_queue q;
    q.push_event(delta(1, 0, "a"), "");
    q.push_text("direct");
    q.push_event(delta(2, 1, "b"), "");
    EXPECT_NE(q.pop().find("\"text\":\"a\""), std::string::npos);
    EXPECT_EQ(q.pop(), "direct");
    EXPECT_NE(q.pop().find("\"seq\":2"), std::string::npos);
    EXPECT_TRUE(q.empty());
    EXPECT_EQ(q.bytes(), 0u);
}

TEST(send_queue, coalesces_for_a_slow_reader_without_losing_a_byte) {
    send_queue q({.coalesce = 2000, .drop = 1 << 20});
    std::string all;
    for (std::uint64_t i = 1; i <= 500; ++i) {
        q.push_event(delta(i, all.size(), "word "), "");
        all += "word ";
    }
    EXPECT_LT(q.frames(), 20u);
    std::string text;
    std::uint64_t next = 1;
    while (!q.empty()) {
        const auto o = boost::json::parse(q.pop()).as_object();
        const auto seq = o.at("seq").to_number<std::uint64_t>();
        const auto from = o.contains("from_seq") ? o.at("from_seq").to_number<std::uint64_t>() : seq;
        EXPECT_EQ(from, next);
        EXPECT_EQ(o.at("offset").to_number<std::size_t>(), text.size());
        text += o.at("text").as_string();
        next = seq + 1;
    }
    EXPECT_EQ(text, all);
    EXPECT_EQ(next, 501u);
}

TEST(send_queue, does_not_coalesce_over_other_events_or_messages) {
    send_queue q({.coalesce = 0, .drop = 1 << 20});
    q.push_event(delta(1, 0, "a"), "");
    q.push_event(std::make_shared<event>(event{"s", 2, generation_paused{"m", "memory"}}), "");
    q.push_event(delta(3, 1, "b"), "");
    q.push_event(std::make_shared<event>(event{"s", 4, delta_event{"other", 0, "c", 0, {}, 0}}), "");
    EXPECT_EQ(q.frames(), 4u);
}

TEST(send_queue, overflows_at_its_bound) {
    send_queue q({.coalesce = 100, .drop = 10000});
    while (!q.overflown()) q.push_event(std::make_shared<event>(event{"s", 1, generation_paused{"m", "memory"}}), "");
    EXPECT_GT(q.bytes(), 10000u);
    EXPECT_LT(q.bytes(), 11000u);
}

}  // namespace
}  // namespace troupe::net
