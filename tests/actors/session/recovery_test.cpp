// What survives: restarts of the front, deaths of the session, tokenizer and store actors, a disk that refuses.
#include <sqlite3.h>

#include "tests/actors/session/front_fixture.hpp"

namespace troupe::test {
namespace {

class RecoveryTest : public front_test {
 protected:
    /// A front in the middle of an answer: "abc" was seen.
    std::string interrupted() {
        start();
        model_ready();
        const auto s = create();
        EXPECT_TRUE(say(s, "u1", "Hi").ok());
        tokens("abc");
        before = latest();
        return s;
    }
    /// A follower that is answered when the model is there.
    std::shared_ptr<recording_client> wait_for(const std::string& session) {
        auto c = std::make_shared<recording_client>();
        send(session, command::subscribe{{}, c, into(std::make_shared<slot<bool>>())});
        run();
        return c;
    }
    submit_generation before;
};

TEST_F(RecoveryTest, AnUnfinishedAnswerGoesOnAfterARestart) {
    const auto s = interrupted();
    start();
    const auto early = wait_for(s);
    EXPECT_EQ(early->kinds(), "") << "without the vocabulary nobody can say what was seen";
    EXPECT_EQ(say(s, "u2", "x").error().code, errc::session_busy);
    model_ready();
    ASSERT_TRUE(early->last<snapshot_event>().generating);
    EXPECT_EQ(early->last<snapshot_event>().generating->text, "abc");
    ASSERT_EQ(scheduler_state->submitted.size(), 1u);
    EXPECT_EQ(*latest().prompt, *before.prompt);
    EXPECT_EQ(latest().params.seed, before.params.seed);
    EXPECT_EQ(latest().accepted, (std::vector<token_id>{'a', 'b', 'c'}));
    n_told[latest().id] = 3;
    tokens("de");
    finish_with(finish::stop);
    EXPECT_EQ(early->kinds(), "SdD");
    EXPECT_EQ(early->text(), "abcde");
    EXPECT_EQ(snapshot_of(s)->messages[1].content, "abcde");
    EXPECT_TRUE(say(s, "u2", "next").ok());
}

TEST_F(RecoveryTest, EventNumbersAreNeverUsedTwice) {
    const auto s = interrupted();
    const auto seen = snapshot_of(s)->seq;
    start();
    model_ready();
    const auto c = follow(s, seen);
    EXPECT_EQ(c->kinds(), "S") << "what may have been missed cannot be replayed";
    EXPECT_GT(c->events[0].e->seq, seen);
    n_told[latest().id] = 3;
    tokens("d");
    EXPECT_GT(c->events.back().e->seq, c->events[0].e->seq);
}

TEST_F(RecoveryTest, WithoutResumingItEndsWithAnErrorAndKeepsItsText) {
    const auto s = interrupted();
    settings.resume_unfinished = false;
    start();
    model_ready();
    EXPECT_TRUE(scheduler_state->submitted.empty());
    const auto snap = *snapshot_of(s);
    EXPECT_EQ(snap.messages[1].content, "abc");
    ASSERT_TRUE(snap.messages[1].err);
    EXPECT_TRUE(say(s, "u2", "next").ok());
}

TEST_F(RecoveryTest, OnOtherArithmeticItSaysSo) {
    const auto s = interrupted();
    start();
    const auto c = wait_for(s);
    model_ready("gpu/2");
    n_told[latest().id] = 3;
    tokens("d");
    EXPECT_EQ(c->kinds(), "SRd");
    EXPECT_TRUE(std::get<generation_resumed>(c->events[1].e->payload).numerics_changed);
}

TEST_F(RecoveryTest, ACompleteJournalNeedsNoExecutor) {
    start();
    model_ready();
    const auto s = create();
    generation_params p;
    p.max_tokens = 3;
    ASSERT_TRUE(say(s, "u1", "Hi", nullptr, {}, p).ok());
    tokens("abc");
    start();
    model_ready();
    EXPECT_TRUE(scheduler_state->submitted.empty());
    EXPECT_EQ(snapshot_of(s)->messages[1].finish_reason, "length");
    EXPECT_EQ(snapshot_of(s)->messages[1].content, "abc");
}

TEST_F(RecoveryTest, ASessionThatDiesComesBackAndNobodySeesATokenTwice) {
    const auto s = interrupted();
    const auto c = follow(s, 0);
    EXPECT_TRUE(ask<bool>(gateway, std::string("session"), actor_fault{"crash", 0}));
    tokens("d");  // dies on these: not journaled, so nobody has seen them
    ASSERT_EQ(scheduler_state->submitted.size(), 2u);
    EXPECT_EQ(scheduler_state->cancelled, std::vector<generation_id>{before.id});
    EXPECT_EQ(latest().accepted, (std::vector<token_id>{'a', 'b', 'c'}));
    n_told[latest().id] = 3;
    tokens("d");
    finish_with(finish::stop);
    EXPECT_EQ(c->text(), "abcd");
    EXPECT_EQ(snapshot_of(s)->messages[1].content, "abcd");
    std::uint64_t last = 0;
    for (const auto& t : c->events) {
        if (!std::holds_alternative<snapshot_event>(t.e->payload)) {
            EXPECT_EQ(t.e->seq, last + 1);
        }
        last = t.e->seq;
    }
}

TEST_F(RecoveryTest, ATokenizerThatDiesIsReplacedAndAskedAgain) {
    start();
    model_ready();
    const auto s = create();
    EXPECT_TRUE(ask<bool>(gateway, std::string("tokenizer"), actor_fault{"crash", 0}));
    auto got = std::make_shared<slot<posted>>();
    send(s, command::message{{"u1", "Hi", {}, {}}, {}, into(got)});
    run();
    EXPECT_TRUE(got->got.empty());
    advance(std::chrono::milliseconds(200));
    ASSERT_EQ(got->got.size(), 1u);
    EXPECT_TRUE(got->got[0].ok());
}

TEST_F(RecoveryTest, AStoreThatDiesIsReplacedAndGetsTheWritesAgain) {
    const auto s = interrupted();
    const auto c = follow(s, 0);
    EXPECT_TRUE(ask<bool>(gateway, std::string("store"), actor_fault{"crash", 0}));
    tokens("d");
    tokens("e");
    finish_with(finish::stop);
    EXPECT_EQ(c->text(), "abcde");
    start();
    model_ready();
    EXPECT_EQ(snapshot_of(s)->messages[1].content, "abcde");
}

TEST_F(RecoveryTest, ACompactorThatDiesIsReplacedAndNobodyElseNotices) {
    const auto s = interrupted();
    const auto c = follow(s, 0);
    const int before_it = compactors;
    EXPECT_TRUE(ask<bool>(gateway, std::string("compactor"), actor_fault{"crash", 0}));
    caf::anon_send(compactor, kv_usage{});
    run();
    EXPECT_EQ(compactors, before_it + 1);
    EXPECT_NE(ask<std::string>(gateway, state_atom::value).find("\"compactor\":1"), std::string::npos);
    tokens("d");
    finish_with(finish::stop);
    EXPECT_EQ(c->text(), "abcd");
    EXPECT_EQ(ask_error<bool>(gateway, std::string("moon"), actor_fault{"crash", 0}).code, errc::invalid_request);
}

TEST_F(RecoveryTest, WhoComesLaterHearsWhatIsNotAsItShouldBe) {
    start();
    model_ready();
    const auto early = std::make_shared<recording_client>(), late = std::make_shared<recording_client>();
    caf::anon_send(gateway, health_subscription{early});
    caf::anon_send(gateway, health_broadcast{true, "small_batch", "why"});
    caf::anon_send(gateway, persistence_state{true, "the disk is full"});
    caf::anon_send(gateway, health_subscription{late});
    run();
    EXPECT_EQ(early->kinds(), "--");
    EXPECT_EQ(late->kinds(), "--");
    caf::anon_send(gateway, health_broadcast{false, "ok", ""});
    run();
    EXPECT_EQ(late->kinds(), "---") << "the disk is still full";
    EXPECT_EQ(late->last<degraded_event>().level, "persistence");
    caf::anon_send(gateway, persistence_state{false, ""});
    run();
    EXPECT_EQ(late->kinds(), "---+");
}

TEST_F(RecoveryTest, ADiskThatRefusesDegradesAndIsCaughtUpLater) {
    const auto s = interrupted();
    const auto c = follow(s, 0);
    const auto watcher = std::make_shared<recording_client>();
    caf::anon_send(gateway, health_subscription{watcher});
    sqlite3* other = nullptr;
    ASSERT_EQ(sqlite3_open((dir / "troupe.db").c_str(), &other), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
    tokens("d");
    EXPECT_EQ(watcher->kinds(), "-");
    EXPECT_EQ(c->text(), "abcd") << "the engine serves on";
    finish_with(finish::stop);
    EXPECT_EQ(c->kinds().back(), 'D');
    sqlite3_exec(other, "ROLLBACK", nullptr, nullptr, nullptr);
    sqlite3_close(other);
    advance(std::chrono::seconds(2));
    EXPECT_EQ(watcher->kinds(), "-+");
    start();
    model_ready();
    EXPECT_EQ(snapshot_of(s)->messages[1].content, "abcd");
}

TEST_F(RecoveryTest, WithoutAPlaceToWriteEverythingWorksInMemory) {
    std::filesystem::create_directories(dir / "troupe.db");
    start();
    model_ready();
    const auto s = create();
    ASSERT_TRUE(say(s, "u1", "Hi").ok());
    tokens("ok");
    finish_with(finish::stop);
    EXPECT_EQ(snapshot_of(s)->messages[1].content, "ok");
    EXPECT_NE(ask<std::string>(gateway, state_atom::value).find("\"degraded\":true"), std::string::npos);
}

}  // namespace
}  // namespace troupe::test
