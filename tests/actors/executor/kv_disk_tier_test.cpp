// The executor's disk tier: blocks out, blocks in, the folder looked through at start.
#include "actors/executor/kv_disk_tier.hpp"

#include <condition_variable>
#include <fstream>
#include <mutex>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/fake_backend.hpp"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

class KvDiskTier : public ::testing::Test {
 protected:
    KvDiskTier() {
        for (std::uint32_t s = 0; s < 4; ++s) EXPECT_TRUE(backend_.commit(s));
        for (std::int32_t i = 0; i < 48; ++i) tokens_.push_back(i * 7 % 61);
    }
    ~KvDiskTier() override { fs::remove_all(root_); }

    kv_folder open(std::uint64_t bytes = 1 << 20) {
        return open_kv_folder({root_, bytes}, backend_.info(), backend_.layout());
    }
    void start() {
        tier_ = std::make_unique<kv_disk_tier>(backend_, open().path, [this](kv_job_result r) { heard(r); });
    }
    void heard(const kv_job_result& r) {
        const std::lock_guard lock(mutex_);
        results_.push_back(r);
        changed_.notify_all();
    }
    kv_job_result work(kv_job job) {
        std::unique_lock lock(mutex_);
        const auto n = results_.size();
        lock.unlock();
        tier_->start(std::move(job));
        lock.lock();
        changed_.wait(lock, [&] { return results_.size() > n; });
        return results_.back();
    }
    void fill(model::block_id b, std::int32_t value) {
        std::vector<std::int32_t> content(model::block_tokens, value);
        backend_.write_block(0, b, std::as_bytes(std::span(content)));
    }
    std::int32_t look(model::block_id b) {
        std::vector<std::int32_t> content(model::block_tokens);
        backend_.read_block(0, b, std::as_writable_bytes(std::span(content)));
        return content[5];
    }
    kv_job save_job(const std::string& file = "a.kv") {
        return {1, kv_job_kind::save, pack_ids(tokens_), 1, {{file, {1, 2}, {0, 0}, {7, 3}}}};
    }
    kv_job load_job(const std::string& file = "a.kv") {
        return {2, kv_job_kind::load, pack_ids(tokens_), 0, {{file, {1, 2}, {0, 0}, {10, 11}}}};
    }

    fs::path root_ = fs::temp_directory_path() / ("troupe-kv-tier-" + std::to_string(::getpid()));
    test::fake_backend backend_{{}};
    std::vector<token_id> tokens_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<kv_job_result> results_;
    std::unique_ptr<kv_disk_tier> tier_;
};

TEST_F(KvDiskTier, WhatWasSavedIsFoundAtTheNextStartAndComesBack) {
    start();
    fill(7, 100);
    fill(3, 200);
    const auto saved = work(save_job());
    EXPECT_EQ(saved.good_parts, 1u) << saved.reason;
    const auto folder = open();
    ASSERT_EQ(folder.images.size(), 1u);
    const auto& image = folder.images[0];
    EXPECT_EQ(image.bytes, saved.bytes);
    EXPECT_EQ(image.first_block, 1u);
    EXPECT_EQ(image.groups, (std::vector<std::uint32_t>{1, 1}));
    const std::span<const token_id> all(tokens_);
    const auto first = model::prefix_key(model::root_key, all.first(16));
    const auto second = model::prefix_key(first, all.subspan(16, 16));
    EXPECT_EQ(image.keys, (std::vector<std::uint64_t>{second, model::prefix_key(second, all.subspan(32, 16))}));
    fill(7, 0);
    fill(3, 0);
    EXPECT_EQ(work(load_job()).good_parts, 1u);
    EXPECT_EQ(look(10), 100);
    EXPECT_EQ(look(11), 200);
    EXPECT_EQ(work({3, kv_job_kind::drop, {}, 0, {{"a.kv", {}, {}, {}}}}).good_parts, 1u);
    EXPECT_TRUE(open().images.empty());
}

TEST_F(KvDiskTier, ABlockThatIsDamagedOrOfOtherTokensIsRefusedAndTheFileGoes) {
    start();
    work(save_job());
    const auto path = open().path / "a.kv";
    {
        std::fstream f(path, std::ios::in | std::ios::out | std::ios::binary);
        f.seekp(-3, std::ios::end);
        f.put(99);
    }
    EXPECT_EQ(open().images.size(), 1u) << "blocks are checked when they are read";
    auto r = work(load_job());
    EXPECT_EQ(r.good_parts, 0u);
    EXPECT_EQ(r.reason, "checksum");
    EXPECT_FALSE(fs::exists(path));
    r = work(load_job());
    EXPECT_EQ(r.reason, "unreadable");

    work(save_job());
    tokens_[40] ^= 1;  // only in the last block
    EXPECT_EQ(work({2, kv_job_kind::load, pack_ids(tokens_), 0, {{"a.kv", {1}, {0}, {10}}}}).good_parts, 1u)
        << "a branch that leaves the image's path takes what is before";
    tokens_[3] = 60;  // before the first block of the image: what it depends on
    r = work(load_job());
    EXPECT_EQ(r.reason, "foreign");
}

TEST_F(KvDiskTier, DamagedAndForeignFilesAreRefusedAtStart) {
    start();
    work(save_job("a.kv"));
    work(save_job("b.kv"));
    work(save_job("c.kv"));
    const auto folder = open().path;
    fs::resize_file(folder / "a.kv", fs::file_size(folder / "a.kv") - 1);
    {
        std::fstream f(folder / "b.kv", std::ios::in | std::ios::out | std::ios::binary);
        f.seekp(70);
        f.put(99);
    }
    const auto found = open();
    EXPECT_EQ(found.refused, 2u);
    ASSERT_EQ(found.images.size(), 1u);
    EXPECT_EQ(found.images[0].file, "c.kv");
    EXPECT_FALSE(fs::exists(folder / "a.kv"));
}

TEST_F(KvDiskTier, ImagesOfOtherModelsGoWhenThereIsNoRoomForThem) {
    start();
    const auto r = work(save_job());
    fs::create_directories(root_ / "other" / "numerics");
    for (const char* name : {"a.kv", "b.kv"}) fs::copy(open().path / "a.kv", root_ / "other" / "numerics" / name);
    EXPECT_EQ(open(8 * r.bytes).room, 6 * r.bytes);
    EXPECT_EQ(open(2 * r.bytes).room, r.bytes);
    EXPECT_FALSE(
        fs::exists(root_ / "other" / "numerics" / "a.kv") && fs::exists(root_ / "other" / "numerics" / "b.kv"));
}

TEST_F(KvDiskTier, HalfWrittenFilesGoAndSwitchedOffNothingStays) {
    start();
    work(save_job());
    const auto folder = open().path;
    std::ofstream(folder / "b.kv.partial-77") << "half of an image";
    EXPECT_EQ(open().images.size(), 1u);
    EXPECT_FALSE(fs::exists(folder / "b.kv.partial-77"));
    tier_.reset();
    EXPECT_EQ(open(0).room, 0u);
    EXPECT_FALSE(fs::exists(folder / "a.kv")) << "what was said";
}

TEST_F(KvDiskTier, WithoutAFolderEveryJobIsRefused) {
    EXPECT_EQ(open(0).room, 0u);
    kv_job_result heard;
    kv_disk_tier none(backend_, {}, [&](kv_job_result r) { heard = std::move(r); });
    none.start(load_job());
    EXPECT_EQ(heard.id, 2u);
    EXPECT_EQ(heard.good_parts, 0u);
    std::ofstream(root_.string()).put('x');  // a file where the folder should be
    EXPECT_EQ(open().room, 0u);
}

}  // namespace
}  // namespace troupe::actors
