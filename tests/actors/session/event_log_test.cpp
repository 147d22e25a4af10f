#include "actors/session/event_log.hpp"

#include <gtest/gtest.h>

#include "actors/session/delivered_text.hpp"

namespace troupe::actors {
namespace {

delta_event delta(std::string text) { return {"msg_a", 0, std::move(text)}; }

TEST(EventLog, NumbersFromOneWithoutGaps) {
    event_log log;
    for (std::uint64_t i = 1; i <= 10; ++i) EXPECT_EQ(log.append("s", delta("x"))->seq, i);
    EXPECT_EQ(log.last(), 10u);
}

TEST(EventLog, ReplaysExactlyWhatIsMissing) {
    event_log log;
    for (int i = 0; i < 10; ++i) log.append("s", delta(std::to_string(i)));
    ASSERT_TRUE(log.covers(7));
    const auto missing = log.since(7);
    ASSERT_EQ(missing.size(), 3u);
    EXPECT_EQ(missing.front()->seq, 8u);
    EXPECT_EQ(missing.back()->seq, 10u);
    EXPECT_TRUE(log.covers(0));
    EXPECT_TRUE(log.covers(10));
    EXPECT_TRUE(log.since(10).empty());
    EXPECT_FALSE(log.covers(11)) << "a number that was never given out needs a snapshot";
}

TEST(EventLog, KeepsTheNewestEventsOfTheWindow) {
    event_log log(0, 1u << 20);
    for (std::size_t i = 0; i < limits::event_ring_events + 100; ++i) log.append("s", delta("x"));
    EXPECT_EQ(log.size(), limits::event_ring_events);
    EXPECT_TRUE(log.covers(100));
    EXPECT_FALSE(log.covers(99));
    EXPECT_EQ(log.since(100).front()->seq, 101u);
}

TEST(EventLog, ByteBoundHoldsForLargeEvents) {
    event_log log;
    for (int i = 0; i < 64; ++i) log.append("s", delta(std::string(64u << 10, 'x')));
    EXPECT_LE(log.bytes(), limits::event_ring_bytes);
    EXPECT_LT(log.size(), 64u);
    EXPECT_TRUE(log.covers(log.last() - log.size()));
    EXPECT_FALSE(log.covers(log.last() - log.size() - 1));
}

TEST(EventLog, KeepsEverythingOfTheRunningAnswer) {
    event_log log(0, 1u << 20);
    for (int i = 0; i < 50; ++i) log.append("s", delta("before"));
    log.pin();
    for (std::size_t i = 0; i < 2 * limits::event_ring_events; ++i) log.append("s", delta("x"));
    EXPECT_TRUE(log.covers(50));
    EXPECT_EQ(log.since(50).size(), 2 * limits::event_ring_events);
    log.unpin();
    EXPECT_EQ(log.size(), limits::event_ring_events);
    EXPECT_FALSE(log.covers(50));
}

TEST(EventLog, AfterARestartNumbersJumpForwardAndNothingOldIsCovered) {
    event_log log(4096, 4096);
    EXPECT_TRUE(log.exhausted());
    EXPECT_FALSE(log.covers(37));
    log.extend(8192);
    EXPECT_FALSE(log.exhausted());
    EXPECT_EQ(log.append("s", delta("x"))->seq, 4097u);
    EXPECT_FALSE(log.wants_reservation());
    while (!log.wants_reservation()) log.append("s", delta("x"));
    EXPECT_EQ(log.last(), 8192 - limits::seq_reservation / 2 + 1);
}

TEST(EventLog, OfAStoredSessionWithMessagesCoversNothing) {
    stored_session s;
    EXPECT_TRUE(log_of_stored(s).covers(0)) << "nothing was ever said";
    s.messages.emplace_back();
    EXPECT_FALSE(log_of_stored(s).covers(0)) << "it died before the numbers of its first events were reserved";
    s.seq_reserved = 4096;
    EXPECT_EQ(log_of_stored(s).last(), 4096u);
    EXPECT_TRUE(log_of_stored(s).exhausted());
}

TEST(EventLog, BrokenOffItCoversNothingAndGoesOn) {
    event_log log;
    for (int i = 0; i < 3; ++i) log.append("s", delta("x"));
    log.break_off();
    for (std::uint64_t from = 0; from <= 3; ++from) EXPECT_FALSE(log.covers(from)) << "something may be missing";
    EXPECT_TRUE(log.covers(log.last())) << "what a snapshot is given";
    EXPECT_EQ(log.append("s", delta("y"))->seq, 5u);
}

TEST(DeliveredText, CutsOffWhatASessionSaysAgain) {
    delivered_text d;
    const auto rest = [&](const std::string& message, std::uint64_t offset, std::string text) {
        event_payload e = delta_event{message, offset, std::move(text)};
        return d.trim(e) ? std::string("nothing") : std::get<delta_event>(e).text;
    };
    EXPECT_EQ(rest("a", 0, "one "), "one ");
    EXPECT_EQ(rest("a", 4, "two "), "two ");
    EXPECT_EQ(rest("a", 0, "one two "), "nothing") << "it was restarted";
    EXPECT_EQ(rest("a", 0, "one two three"), "three");
    EXPECT_EQ(rest("b", 0, "one "), "one ") << "another answer";
}

}  // namespace
}  // namespace troupe::actors
