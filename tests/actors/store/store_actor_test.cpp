// Group commit and the order of acknowledgements.
#include "actors/store/store_actor.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>

#include <sqlite3.h>
#include <sys/resource.h>

#include "core/limits.hpp"
#include "tests/support/actor_fixture.hpp"

namespace troupe::actors {
namespace {

class StoreActorTest : public test::actor_test {
 protected:
    static caf::behavior collector(
        caf::event_based_actor*, std::shared_ptr<std::vector<store_ack>> acks, std::shared_ptr<std::string> why) {
        return {
            [acks](const store_ack& a) { acks->push_back(a); }, [why](const persistence_state& p) { *why = p.reason; }};
    }
    store_write write(std::uint64_t ticket, std::int64_t pos) {
        auto records =
            std::make_shared<const std::vector<record>>(std::vector<record>{append_tokens{"gen_1", pos, {1}}});
        return {ticket, records, owner};
    }
    std::shared_ptr<std::vector<store_ack>> acks = std::make_shared<std::vector<store_ack>>();
    std::shared_ptr<std::string> why = std::make_shared<std::string>();
    const std::string& degraded_because() const { return *why; }
    caf::actor owner = spawn(collector, acks, why);
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

/// The kernel refuses what lies beyond a limit: SQLite sees a write that fails, as on a full disk.
class disk_limit {
 public:
    explicit disk_limit(std::uint64_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
        getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit full{bytes, before_.rlim_max};
        setrlimit(RLIMIT_FSIZE, &full);
    }
    ~disk_limit() {
        setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, handler_);
    }

 private:
    void (*handler_)(int);
    rlimit before_{};
};

TEST_F(StuckDisk, HowManyTokensWaitForTheDiskIsTold) {
    std::vector<std::size_t> lags;
    options.journal_lag = [&lags](std::size_t n) { lags.push_back(n); };
    kill(stuck);
    stuck = spawn(store_actor, options, owner);
    run();
    lock();
    const std::vector<record> records{append_tokens{"gen_1", 0, {1, 2, 3}}};
    caf::anon_send(stuck, store_write{9, std::make_shared<const std::vector<record>>(records), owner});
    run();
    EXPECT_EQ(lags, std::vector<std::size_t>{3});
    unlock();
    advance(limits::store_retry_every * 2);
    EXPECT_EQ(lags, (std::vector<std::size_t>{3, 0}));
}

TEST_F(StuckDisk, AFullDiskHealsWhenThereIsRoom) {
    const std::string large(200'000, 'z');
    {
        const disk_limit full(64 << 10);
        put("ses_new", large, 2);
        EXPECT_EQ(acks->back().how, saved::deferred);
        EXPECT_EQ(messages("ses_new"), std::vector<std::string>{large}) << "it is served from memory";
        EXPECT_NE(ask<std::string>(stuck, state_atom::value).find("\"degraded\":true"), std::string::npos);
        advance(limits::store_retry_every * 3);
        EXPECT_FALSE(options.backlog->empty());
    }
    advance(limits::store_retry_every * 2);
    EXPECT_TRUE(options.backlog->empty());
    EXPECT_NE(ask<std::string>(stuck, state_atom::value).find("\"degraded\":false"), std::string::npos);
    kill(stuck);
    stuck = spawn(store_actor, options, owner);
    EXPECT_EQ(messages("ses_new"), std::vector<std::string>{large});
    EXPECT_EQ(messages("ses_old"), std::vector<std::string>{"before"});
}

TEST_F(StuckDisk, AFileThatIsDamagedInUseIsSetAsideAndServingGoesOn) {
    std::vector<record> many;
    for (int i = 0; i < 100; ++i)
        many.emplace_back(
            put_message{"ses_old", {{"m" + std::to_string(i), "", "user", std::string(600, 'y'), 1, {}, {}}, {}}});
    caf::anon_send(stuck, store_write{9, std::make_shared<const std::vector<record>>(many), owner});
    run();
    kill(stuck);
    stuck = spawn(store_actor, options, owner);
    run();
    lock();  // another connection's commit: what the store has in memory is read again
    ASSERT_EQ(sqlite3_exec(other, "CREATE TABLE other(x); COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
    unlock();
    {
        std::fstream f(options.file, std::ios::in | std::ios::out | std::ios::binary);
        f.seekp(4096);
        const std::string junk(std::filesystem::file_size(options.file) - 4096, '\x5a');
        f.write(junk.data(), static_cast<std::streamsize>(junk.size()));
    }
    put("ses_new", "first", 10);
    EXPECT_EQ(acks->back().how, saved::deferred);
    advance(limits::store_retry_every * 2);
    EXPECT_TRUE(options.backlog->empty());
    EXPECT_EQ(messages("ses_new"), std::vector<std::string>{"first"});
    put("ses_new", "second", 11);
    EXPECT_EQ(acks->back().how, saved::durable);
    int aside = 0;
    for (const auto& f : std::filesystem::directory_iterator(dir))
        aside += f.path().extension().string().starts_with(".damaged-");
    EXPECT_EQ(aside, 1) << "set aside, not deleted";
}

TEST_F(StuckDisk, AFileOfANewerTroupeIsLeftAloneWhileServingGoesOn) {
    kill(stuck);
    sqlite3* raw = nullptr;
    ASSERT_EQ(sqlite3_open(options.file.c_str(), &raw), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(raw, "PRAGMA user_version=99", nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(raw);
    stuck = spawn(store_actor, options, owner);
    put("ses_new", "first", 2);
    EXPECT_EQ(acks->back().how, saved::deferred);
    advance(limits::store_retry_every * 3);
    EXPECT_FALSE(options.backlog->empty());
    EXPECT_EQ(messages("ses_new"), std::vector<std::string>{"first"});
    EXPECT_NE(degraded_because().find("newer Troupe"), std::string::npos) << degraded_because();
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
