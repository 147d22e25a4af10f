// Group commit and the order of acknowledgements.
#include "actors/store/store_actor.hpp"

#include <filesystem>

#include <sqlite3.h>

#include "core/limits.hpp"
#include "tests/support/actor_fixture.hpp"

namespace troupe::actors {
namespace {

class StoreActorTest : public test::actor_test {
 protected:
    static caf::behavior collector(caf::event_based_actor*, std::shared_ptr<std::vector<store_ack>> acks) {
        return {[acks](const store_ack& a) { acks->push_back(a); }, [](const persistence_state&) {}};
    }
    store_write write(std::uint64_t ticket, std::int64_t pos) {
        auto records =
            std::make_shared<const std::vector<record>>(std::vector<record>{append_tokens{"gen_1", pos, {1}}});
        return {ticket, records, owner};
    }
    std::shared_ptr<std::vector<store_ack>> acks = std::make_shared<std::vector<store_ack>>();
    caf::actor owner = spawn(collector, acks);
    caf::actor store = spawn(store_actor, store_options{{}, "a test"}, owner);
};

TEST_F(StoreActorTest, EverythingThatWaitsIsOneTransaction) {
    run();
    for (std::uint64_t i = 1; i <= 8; ++i) caf::anon_send(store, write(i, static_cast<std::int64_t>(i)));
    run();
    ASSERT_EQ(acks->size(), 8u);
    for (std::uint64_t i = 1; i <= 8; ++i) EXPECT_EQ((*acks)[i - 1].ticket, i);
    EXPECT_NE(ask<std::string>(store, state_atom::value).find("\"commits\":1,\"records\":8"), std::string::npos);
}

TEST_F(StoreActorTest, AReadSeesTheWritesBeforeIt) {
    session_view v{"ses_1", "t", {}, 1, 1};
    auto records = std::make_shared<const std::vector<record>>(std::vector<record>{put_session{v, "", 7}});
    caf::anon_send(store, store_write{1, records, owner});
    const auto s = ask<session_ptr>(store, store_load{"ses_1"});
    ASSERT_TRUE(s);
    EXPECT_EQ(s->seq_reserved, 7u);
    EXPECT_EQ(ask<page_ptr>(store, store_list{10, "", ""})->sessions.size(), 1u);
    EXPECT_EQ(ask_error<page_ptr>(store, store_list{10, "ses_2", ""}).code, errc::not_found);
}

TEST_F(StoreActorTest, InMemoryIsAcknowledgedAsNotDurable) {
    caf::anon_send(store, write(1, 0));
    run();
    ASSERT_EQ(acks->size(), 1u);
    EXPECT_EQ((*acks)[0].how, saved::deferred);
}

/// A database file that somebody else keeps locked: what a full or failing disk looks like to the store.
class StuckDisk : public StoreActorTest {
 protected:
    void SetUp() override {
        dir = std::filesystem::temp_directory_path() / ("troupe-store-" + std::to_string(::getpid()));
        std::filesystem::create_directories(dir);
        options.file = (dir / "troupe.db").string();
        stuck = spawn(store_actor, options, owner);
        run();
        put("ses_old", "before", 1);
        ASSERT_EQ(acks->back().how, saved::durable);
    }
    void TearDown() override {
        unlock();
        kill(stuck);
        std::filesystem::remove_all(dir);
    }
    void lock() {
        ASSERT_EQ(sqlite3_open(options.file.c_str(), &other), SQLITE_OK);
        ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
    }
    void unlock() {
        sqlite3_close(other);
        other = nullptr;
    }
    void kill(caf::actor& a) {
        caf::anon_send_exit(a, caf::exit_reason::kill);
        run();
        a = nullptr;
    }
    void put(const std::string& id, const std::string& title, std::uint64_t ticket) {
        session_view v{id, title, {}, static_cast<std::int64_t>(ticket), 1};
        std::vector<record> records{
            put_session{v, "", 7}, put_message{id, {{"msg_" + title, "", "user", title, 1, {}, {}}, {}}}};
        caf::anon_send(stuck, store_write{ticket, std::make_shared<const std::vector<record>>(records), owner});
        run();
    }
    std::vector<std::string> messages(const std::string& id) {
        const auto s = ask<session_ptr>(stuck, store_load{id});
        std::vector<std::string> r;
        if (s)
            for (const auto& m : s->messages) r.push_back(m.view.content);
        return r;
    }
    std::filesystem::path dir;
    store_options options;
    caf::actor stuck;
    sqlite3* other = nullptr;
};

TEST_F(StuckDisk, WhatTheDiskRefusesIsReadAsIfItWereThere) {
    lock();
    put("ses_new", "first", 2);
    EXPECT_EQ(acks->back().how, saved::deferred);
    put("ses_old", "after", 3);
    EXPECT_EQ(messages("ses_new"), std::vector<std::string>{"first"});
    EXPECT_EQ(messages("ses_old"), (std::vector<std::string>{"before", "after"}));
    const auto page = ask<page_ptr>(stuck, store_list{10, "", ""});
    ASSERT_EQ(page->sessions.size(), 2u);
    EXPECT_EQ(page->sessions[0].id, "ses_new");
    EXPECT_EQ(page->sessions[1].title, "after");
    EXPECT_EQ(ask<page_ptr>(stuck, store_list{10, "", "FIRST"})->sessions.size(), 1u);
}

TEST_F(StuckDisk, TheBacklogOutlivesTheActorAndIsWrittenWhenTheDiskIsBack) {
    lock();
    put("ses_new", "first", 2);
    kill(stuck);
    stuck = spawn(store_actor, options, owner);
    run();
    EXPECT_EQ(messages("ses_new"), std::vector<std::string>{"first"});
    unlock();
    advance(limits::store_retry_every * 2);
    EXPECT_TRUE(options.backlog->empty());
    EXPECT_EQ(messages("ses_new"), std::vector<std::string>{"first"});
    EXPECT_EQ(messages("ses_old"), std::vector<std::string>{"before"});
}

TEST_F(StuckDisk, AFileThatCannotBeOpenedIsTriedAgain) {
    kill(stuck);
    std::filesystem::rename(dir, dir.string() + "-away");
    stuck = spawn(store_actor, options, owner);
    run();
    put("ses_new", "first", 2);
    EXPECT_EQ(acks->back().how, saved::deferred);
    EXPECT_EQ(messages("ses_new"), std::vector<std::string>{"first"});
    std::filesystem::rename(dir.string() + "-away", dir);
    advance(limits::store_retry_every * 2);
    EXPECT_EQ(messages("ses_new"), std::vector<std::string>{"first"});
    EXPECT_EQ(messages("ses_old"), std::vector<std::string>{"before"});
}

}  // namespace
}  // namespace troupe::actors
