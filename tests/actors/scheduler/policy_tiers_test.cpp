// Prefixes of stored sessions go to the disk when they were not used for a while, and come back instead of being
// computed.
#include "actors/scheduler/disk_index.hpp"
#include "model/kv_image.hpp"
#include "policy_bench.hpp"

namespace troupe::actors {
namespace {

using test::answer_of;
using test::full_layout;
using test::policy_bench;
using test::tokens_from;
using test::windowed_layout;
using namespace std::chrono_literals;

struct tier_bench : policy_bench {
    explicit tier_bench(model::kv_layout layout = full_layout(), std::uint64_t room = 1 << 20, int max_seqs = 4)
        : policy_bench({.max_seqs = max_seqs}, std::move(layout), 64) {
        disk.room = room;
        up();
    }
    /// A turn of a chat; the whole text so far.
    std::vector<token_id> turn(generation_id id, std::vector<token_id> prompt, std::int64_t n = 30) {
        EXPECT_TRUE(submit(id, prompt, n).ok());
        run();
        EXPECT_EQ(got[id], answer_of(prompt, n));
        prompt.insert(prompt.end(), got[id].begin(), got[id].end());
        return prompt;
    }
    void idle() {
        now += 60s;
        policy.give_back({now, 0}, now);
        run();
    }
};

TEST(Tiers, ASessionComesBackFromTheDiskInTheNextLife) {
    for (const auto& layout : {full_layout(), windowed_layout(32), test::latent_layout()}) {
        tier_bench b(layout);
        auto chat = b.turn(1, tokens_from(100, 200));
        b.idle();
        EXPECT_EQ(b.policy.usage().segments_committed, 0) << "all of it is gone";
        EXPECT_EQ(b.disk.images.size(), 1u);
        b.down("killed");
        b.up();
        const auto more = tokens_from(700, 20);
        chat.insert(chat.end(), more.begin(), more.end());
        b.turn(2, chat);
        EXPECT_EQ(b.end(2).usage.cached_tokens, 224) << "229 positions were computed: 14 whole blocks";
        EXPECT_EQ(b.policy.counters().tokens_loaded, 224u);
        EXPECT_EQ(b.policy.kv()->pool().counts(0).owned, 0);
    }
}

TEST(Tiers, WhatIsThereAlreadyIsNeitherSavedNorLoadedTwice) {
    tier_bench b;
    auto chat = b.turn(1, tokens_from(100, 200));
    b.idle();
    chat.insert(chat.end(), {20, 21, 22});
    chat = b.turn(2, chat, 100);
    b.idle();
    ASSERT_EQ(b.disk.images.size(), 2u);
    std::size_t blocks = 0;
    for (const auto& [file, image] : b.disk.images) blocks += image.blocks.size();
    EXPECT_EQ(blocks, (chat.size() - 1) / 16) << "the second image goes on where the first ends";
    chat.push_back(23);
    b.turn(3, chat, 5);
    EXPECT_EQ(b.end(3).usage.cached_tokens, static_cast<std::int64_t>(chat.size() - 2) / 16 * 16);
    b.idle();
    EXPECT_LE(b.disk.images.size(), 3u);
}

TEST(Tiers, ADamagedImageIsComputedAgainAndForgotten) {
    tier_bench b;
    auto chat = b.turn(1, tokens_from(100, 200));
    b.idle();
    for (auto& [file, image] : b.disk.images) image.damaged = true;
    chat.push_back(20);
    b.turn(2, chat);
    EXPECT_EQ(b.end(2).usage.cached_tokens, 0);
    EXPECT_EQ(b.policy.counters().images_refused, 1u);
    EXPECT_EQ(b.policy.disk().size(), 0u);
    EXPECT_EQ(b.policy.kv()->pool().counts(0).owned, 0);
}

TEST(Tiers, RequestsWithoutASessionLeaveNothingOnTheDisk) {
    tier_bench b;
    b.keep = false;
    b.turn(1, tokens_from(100, 200));
    b.idle();
    EXPECT_TRUE(b.disk.images.empty());
    EXPECT_EQ(b.policy.usage().segments_committed, 0);
}

TEST(Tiers, WhatIsFasterComputedIsNotLoaded) {
    tier_bench b;
    b.turn(1, tokens_from(500, 300), 5);  // 10 ms a step: 128 tokens in 10 ms
    auto chat = b.turn(2, tokens_from(100, 20), 5);
    b.idle();
    ASSERT_EQ(b.policy.disk().size(), 2u);
    ASSERT_LT(b.policy.costs().prompt_ms(16, 0), 2) << "a load is thought to take 2 ms at least";
    chat.push_back(20);
    b.turn(3, chat, 5);
    EXPECT_EQ(b.end(3).usage.cached_tokens, 0);
}

TEST(Tiers, TheDiskHasABoundAndTheLongestUnusedGoes) {
    tier_bench b(full_layout(), 30 * 1024);  // 30 blocks
    auto first = b.turn(1, tokens_from(100, 200), 9);
    b.idle();
    b.turn(2, tokens_from(400, 200), 9);
    b.idle();
    EXPECT_EQ(b.disk.images.size(), 2u);
    b.turn(3, tokens_from(600, 200), 9);
    b.idle();
    EXPECT_EQ(b.disk.images.size(), 2u);
    EXPECT_EQ(b.policy.counters().images_dropped, 1u);
    EXPECT_LE(b.policy.disk().bytes(), b.disk.room);
    first.push_back(20);
    b.turn(4, first, 5);
    EXPECT_EQ(b.end(4).usage.cached_tokens, 0) << "the first went";
}

TEST(Tiers, ALoadThatDoesNotComeDelaysARequestAndDoesNotStopIt) {
    tier_bench b;
    auto chat = b.turn(1, tokens_from(100, 200));
    b.idle();
    chat.push_back(20);
    ASSERT_TRUE(b.submit(2, chat, 5).ok());
    while (b.got[2].empty()) {
        for (b.send(); !b.sent.empty(); b.send()) b.step();
        const auto at = b.policy.wakeup(b.now);
        ASSERT_TRUE(b.got[2].size() > 0 || at);
        if (at) b.now = std::max(b.now, *at);
    }
    EXPECT_EQ(b.executor->n_jobs(), 1u);
    b.run();
    EXPECT_EQ(b.got[2], answer_of(chat, 5));
    EXPECT_EQ(b.policy.kv()->pool().counts(0).owned, 0) << "what came late is in the cache";
}

TEST(Tiers, ARequestThatGoesWhileItWaitsLeavesNothingHeld) {
    tier_bench b;
    auto chat = b.turn(1, tokens_from(100, 200));
    b.idle();
    chat.push_back(20);
    ASSERT_TRUE(b.submit(2, chat, 5).ok());
    b.send();
    b.policy.cancel(2, b.now);
    b.listen();
    b.run();
    EXPECT_EQ(b.policy.kv()->pool().counts(0).owned, 0);
    b.policy.check();
}

TEST(Tiers, ALoadGoesOnAndEndsThoughItsRequestHasNoPlaceYet) {
    tier_bench b(full_layout(), 1 << 20, 1);
    auto chat = b.turn(1, tokens_from(100, 200));
    b.idle();
    chat.push_back(20);
    ASSERT_TRUE(b.submit(2, chat, 5).ok());
    b.send();  // nothing is committed: its load has to look for blocks
    ASSERT_TRUE(b.submit(3, tokens_from(600, 20), 300, "other").ok());
    b.send();
    while (b.got[3].size() < 250) {
        b.step(100);
        b.send();
        const auto at = b.policy.wakeup(b.now);
        ASSERT_TRUE(!at || *at > b.now) << "a timer that is always due burns a core";
    }
    EXPECT_EQ(b.executor->n_jobs(), 1u) << "the load was sent";
    b.run();
    EXPECT_EQ(b.got[2], answer_of(chat, 5));
    EXPECT_EQ(b.policy.kv()->pool().counts(0).owned, 0);
}

TEST(Tiers, TheBoundOfTheDiskHoldsForWhatIsOnItsWayAndForALowerOne) {
    tier_bench b(full_layout(), 20 * 1024);
    for (generation_id id = 1; id <= 3; ++id) b.turn(id, tokens_from(static_cast<token_id>(100 + 250 * id), 200), 9);
    b.idle();  // three of 12 or 13 blocks; the fake disk complains if there is ever more than may be
    EXPECT_EQ(b.disk.images.size(), 1u);
    EXPECT_EQ(b.policy.usage().segments_committed, 0);
    b.down("killed");
    b.disk.room = 4 * 1024;
    b.up();
    b.run();
    EXPECT_TRUE(b.disk.images.empty());
}

TEST(DiskIndex, FindsTheLongestPrefixWhoseWindowsAreCovered) {
    const auto layout = windowed_layout(32);
    const auto tokens = tokens_from(100, 96);
    kv_image_info image{"a", 100, 0, {}, {1, 1, 1, 3, 3, 1}};  // bit 1: the window's block
    std::uint64_t key = model::root_key;
    for (std::size_t i = 0; i < 6; ++i) {
        key = model::prefix_key(key, std::span(tokens).subspan(i * 16, 16));
        image.keys.push_back(key);
    }
    const disk_index index(layout, 1000, {image});
    // A row at 80 sees 49 to 80: blocks 3 and 4. One at 96 would need 5, one at 64 block 2.
    EXPECT_EQ(index.find(tokens, 0, 96).end, 5u);
    EXPECT_EQ(index.find(tokens, 0, 79).end, 0u);
    EXPECT_EQ(index.find(tokens, 3, 79).end, 4u) << "what is at hand covers what comes before";
    auto other = tokens;
    other[50] = 5;
    EXPECT_EQ(index.find(other, 0, 96).end, 0u);
}

}  // namespace
}  // namespace troupe::actors
