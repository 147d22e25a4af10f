#include "actors/store/database.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include "actors/store/data_lock.hpp"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

class DatabaseTest : public ::testing::Test {
 protected:
    DatabaseTest() : dir_(fs::temp_directory_path() / ("troupe-db-" + std::to_string(::getpid()))) {
        fs::remove_all(dir_);
        fs::create_directories(dir_);
    }
    ~DatabaseTest() override { fs::remove_all(dir_); }
    std::unique_ptr<database> open() {
        auto d = database::open(dir_ / "troupe.db");
        EXPECT_TRUE(d.ok()) << (d.ok() ? "" : d.error().message);
        return d.ok() ? std::move(*d) : nullptr;
    }
    fs::path dir_;
};

session_view view(std::string id, std::int64_t created, std::string title = "t") {
    session_view v{std::move(id), std::move(title), {}, created, created};
    v.settings.system = "You help.";
    v.settings.params.temperature = 0.25;
    return v;
}

stored_message message(std::string id, std::string parent, std::string content) {
    return {{std::move(id), std::move(parent), "user", std::move(content), 5, "", {}}, {1, 2, 3}};
}

stored_generation generation() {
    return {"gen_1", "ses_1", "m2", {1, 2, 300000}, R"({"seed":7})", "model", "hash", "numerics", {}};
}

void fill(database& d) {
    const std::vector<record> records{put_session{view("ses_1", 100), "m2", 4096},
        put_message{"ses_1", message("m1", "", "hi")}, put_message{"ses_1", message("m2", "m1", "")},
        put_generation{generation()}, append_tokens{"gen_1", 0, {10, 11}, 9.5f},
        append_tokens{"gen_1", 2, {12}, 8.25f}};
    const auto r = d.apply(records);
    ASSERT_TRUE(r.ok()) << r.error().message;
}

/// Another connection's commit: what the others have in memory is read again.
void forget_cached_pages(const fs::path& file) {
    sqlite3* other = nullptr;
    ASSERT_EQ(sqlite3_open(file.c_str(), &other), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(other, "CREATE TABLE other(x)", nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(other);
}

TEST_F(DatabaseTest, WhatWasWrittenIsThereAfterReopening) {
    fill(*open());
    auto d = open();
    const auto r = d->load("ses_1");
    ASSERT_TRUE(r.ok() && r->has_value());
    const auto& s = **r;
    EXPECT_EQ(s.info, view("ses_1", 100));
    EXPECT_EQ(s.leaf, "m2");
    EXPECT_EQ(s.seq_reserved, 4096u);
    ASSERT_EQ(s.messages.size(), 2u);
    EXPECT_EQ(s.messages[0], message("m1", "", "hi"));
    ASSERT_EQ(s.unfinished.size(), 1u);
    auto g = generation();
    g.tokens = {10, 11, 12};
    g.mu = 8.25f;
    EXPECT_EQ(s.unfinished[0], g);
    EXPECT_EQ(*d->unfinished(), std::vector<std::string>{"ses_1"});
    EXPECT_FALSE(d->load("ses_none")->has_value());
}

TEST_F(DatabaseTest, WritingTheSameTwiceChangesNothing) {
    auto d = open();
    fill(*d);
    fill(*d);
    const auto s = **d->load("ses_1");
    EXPECT_EQ(s.messages.size(), 2u);
    EXPECT_EQ(s.unfinished.at(0).tokens, (std::vector<std::int32_t>{10, 11, 12}));
}

TEST_F(DatabaseTest, AHoleInTheJournalEndsIt) {
    auto d = open();
    fill(*d);
    ASSERT_TRUE(d->apply(std::vector<record>{append_tokens{"gen_1", 5, {99}}}).ok());
    EXPECT_EQ((**d->load("ses_1")).unfinished.at(0).tokens, (std::vector<std::int32_t>{10, 11, 12}));
}

TEST_F(DatabaseTest, AFinishedGenerationLeavesNoJournal) {
    auto d = open();
    fill(*d);
    auto m = message("m2", "m1", "answer");
    m.view.finish_reason = "stop";
    m.view.err = fail(errc::non_finite_logits, "bad", "p");
    ASSERT_TRUE(d->apply(std::vector<record>{put_message{"ses_1", m}, end_generation{"gen_1"}}).ok());
    const auto s = **d->load("ses_1");
    EXPECT_TRUE(s.unfinished.empty());
    EXPECT_EQ(s.messages.at(1), m);
    EXPECT_TRUE(d->unfinished()->empty());
}

TEST_F(DatabaseTest, ReservationsOnlyGrow) {
    auto d = open();
    fill(*d);
    ASSERT_TRUE(d->apply(std::vector<record>{reserve_seq{"ses_1", 9000}, reserve_seq{"ses_1", 10},
                             put_session{view("ses_1", 100), "m2", 0}})
                    .ok());
    EXPECT_EQ((**d->load("ses_1")).seq_reserved, 9000u);
}

TEST_F(DatabaseTest, ListsNewestFirstInPagesAndSearches) {
    auto d = open();
    std::vector<record> records;
    for (int i = 1; i <= 5; ++i)
        records.emplace_back(
            put_session{view("ses_" + std::to_string(i), i * 10, "title " + std::to_string(i)), "", 0});
    records.emplace_back(put_message{"ses_2", message("m", "", "100%_sure about Berlin")});
    ASSERT_TRUE(d->apply(records).ok());
    const auto page = *d->list(2, "", "");
    ASSERT_EQ(page.sessions.size(), 2u);
    EXPECT_EQ(page.sessions[0].id, "ses_5");
    EXPECT_TRUE(page.has_more);
    const auto rest = *d->list(10, "ses_4", "");
    ASSERT_EQ(rest.sessions.size(), 3u);
    EXPECT_EQ(rest.sessions[0].id, "ses_3");
    EXPECT_FALSE(rest.has_more);
    EXPECT_EQ(d->list(10, "ses_none", "").error().code, errc::not_found);
    ASSERT_EQ(d->list(10, "", "berlin")->sessions.size(), 1u);
    EXPECT_EQ(d->list(10, "", "%_s")->sessions.size(), 1u);
    EXPECT_EQ(d->list(10, "", "0%s")->sessions.size(), 0u) << "wildcards in the question are plain text";
    EXPECT_EQ(d->list(10, "", "TITLE 3")->sessions.at(0).id, "ses_3");
}

TEST_F(DatabaseTest, DeletingForgetsEverythingOfASession) {
    auto d = open();
    fill(*d);
    ASSERT_TRUE(d->apply(std::vector<record>{delete_session{"ses_1"}}).ok());
    EXPECT_FALSE(d->load("ses_1")->has_value());
    EXPECT_TRUE(d->unfinished()->empty());
    EXPECT_TRUE(d->list(10, "", "")->sessions.empty());
}

TEST_F(DatabaseTest, ADamagedFileIsSetAsideNotDeleted) {
    const auto file = dir_ / "troupe.db";
    std::ofstream(file) << std::string(8192, 'x');
    auto d = open();
    ASSERT_TRUE(d);
    EXPECT_NE(d->notice().find("damaged"), std::string::npos);
    fill(*d);
    int aside = 0;
    for (const auto& f : fs::directory_iterator(dir_))
        if (f.path().string().find(".damaged-") != std::string::npos && fs::file_size(f.path()) == 8192) ++aside;
    EXPECT_EQ(aside, 1);
}

TEST_F(DatabaseTest, ATornPageIsNoticedAtTheNextStart) {
    {
        auto d = open();
        std::vector<record> records{put_session{view("ses_1", 1), "", 0}};
        for (int i = 0; i < 200; ++i)
            records.emplace_back(put_message{"ses_1", message("m" + std::to_string(i), "", std::string(500, 'y'))});
        ASSERT_TRUE(d->apply(records).ok());
    }
    const auto file = dir_ / "troupe.db";
    const auto size = fs::file_size(file);
    ASSERT_GT(size, 40000u);
    {
        std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
        f.seekp(static_cast<std::streamoff>(size / 2));
        const std::string junk(8192, '\x5a');
        f.write(junk.data(), static_cast<std::streamsize>(junk.size()));
    }
    auto d = open();
    ASSERT_TRUE(d);
    EXPECT_FALSE(d->notice().empty());
}

TEST_F(DatabaseTest, APlaceThatCannotBeWrittenIsATypedError) {
    std::ofstream(dir_ / "file") << "x";
    const auto d = database::open(dir_ / "file" / "troupe.db");
    ASSERT_FALSE(d.ok());
    EXPECT_EQ(d.error().code, errc::io);
    auto memory = database::open_in_memory();
    ASSERT_TRUE(memory.ok());
    fill(**memory);
    EXPECT_TRUE((*memory)->load("ses_1")->has_value());
}

TEST_F(DatabaseTest, ALockedDatabaseRefusesTheWholeTransaction) {
    auto d = open();
    fill(*d);
    sqlite3* other = nullptr;
    ASSERT_EQ(sqlite3_open((dir_ / "troupe.db").c_str(), &other), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
    const std::vector<record> records{put_session{view("ses_9", 1), "", 0}};
    const auto r = d->apply(records);
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().code, errc::io);
    EXPECT_FALSE(d->load("ses_9")->has_value());
    sqlite3_exec(other, "ROLLBACK", nullptr, nullptr, nullptr);
    sqlite3_close(other);
    EXPECT_TRUE(d->apply(records).ok());
}

TEST_F(DatabaseTest, TheDirectoryBelongsToOneEngine) {
    auto first = data_lock::take(dir_ / "data");
    ASSERT_TRUE(first.ok());
    const auto second = data_lock::take(dir_ / "data");
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().code, errc::usage);
    { const auto moved = std::move(*first); }
    EXPECT_TRUE(data_lock::take(dir_ / "data").ok());
    std::ofstream(dir_ / "plain") << "x";
    EXPECT_EQ(data_lock::take(dir_ / "plain").error().code, errc::io);
}

TEST_F(DatabaseTest, AFileOfANewerSchemaIsRefusedAndLeftAsItIs) {
    fill(*open());
    const auto file = dir_ / "troupe.db";
    sqlite3* raw = nullptr;
    ASSERT_EQ(sqlite3_open(file.c_str(), &raw), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(raw, "PRAGMA journal_mode=DELETE; PRAGMA user_version=99; CREATE TABLE more(x)", nullptr,
                  nullptr, nullptr),
        SQLITE_OK);
    sqlite3_close(raw);
    std::ifstream before(file, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(before)), {});
    const auto d = database::open(file);
    ASSERT_FALSE(d.ok());
    EXPECT_EQ(d.error().code, errc::io);
    EXPECT_NE(d.error().message.find("newer Troupe (schema 99"), std::string::npos) << d.error().message;
    std::ifstream after(file, std::ios::binary);
    EXPECT_EQ(std::string((std::istreambuf_iterator<char>(after)), {}), bytes);
    for (const auto& f : fs::directory_iterator(dir_)) EXPECT_EQ(f.path().string().find("damaged"), std::string::npos);
}

TEST_F(DatabaseTest, DamageFoundInUseIsToldApart) {
    auto d = open();
    std::vector<record> records{put_session{view("ses_1", 1), "", 0}};
    for (int i = 0; i < 200; ++i)
        records.emplace_back(put_message{"ses_1", message("m" + std::to_string(i), "", std::string(500, 'y'))});
    ASSERT_TRUE(d->apply(records).ok());
    EXPECT_FALSE(d->damaged());
    d.reset();  // everything is in the file now
    d = open();
    const auto file = dir_ / "troupe.db";
    forget_cached_pages(file);
    {
        std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
        f.seekp(4096);
        const std::string junk(fs::file_size(file) - 4096, '\x5a');
        f.write(junk.data(), static_cast<std::streamsize>(junk.size()));
    }
    ASSERT_FALSE(d->load("ses_1").ok());
    EXPECT_TRUE(d->damaged());
    d.reset();
    auto fresh = database::open(file, true);
    ASSERT_TRUE(fresh.ok());
    EXPECT_NE((*fresh)->notice().find("damaged"), std::string::npos);
    EXPECT_TRUE((*fresh)->list(10, "", "")->sessions.empty());
}

TEST_F(DatabaseTest, AFileOfTheFirstSchemaIsBroughtUpToDate) {
    fill(*open());
    sqlite3* raw = nullptr;
    ASSERT_EQ(sqlite3_open((dir_ / "troupe.db").c_str(), &raw), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(raw, "ALTER TABLE journal DROP COLUMN mu; PRAGMA user_version=1", nullptr, nullptr, nullptr),
        SQLITE_OK);
    sqlite3_close(raw);
    for (int opened = 0; opened < 2; ++opened) {
        const auto r = open()->load("ses_1");
        ASSERT_TRUE(r.ok() && r->has_value());
        EXPECT_EQ((*r)->unfinished.at(0).tokens, (std::vector<std::int32_t>{10, 11, 12}));
        EXPECT_EQ((*r)->unfinished.at(0).mu, 0.0f);
    }
}

}  // namespace
}  // namespace troupe::actors
