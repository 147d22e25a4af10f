// Segments and blocks: accounts add up after every operation, and misuse ends loudly.
#include "actors/scheduler/block_pool.hpp"

#include <random>

#include <gtest/gtest.h>

#include "layouts.hpp"

namespace troupe::actors {
namespace {

using test::full_layout;
using test::windowed_layout;

void commit(block_pool& pool, std::size_t group) {
    const auto op = pool.grow(group);
    ASSERT_TRUE(op);
    pool.committed(op->to, true);
}

TEST(BlockPool, NothingIsFreeBeforeASegmentIsCommitted) {
    block_pool pool(full_layout(), 2);
    EXPECT_FALSE(pool.alloc(0));
    const auto op = pool.grow(0);
    ASSERT_TRUE(op);
    EXPECT_EQ(op->kind, kv_op_kind::commit_segment);
    EXPECT_FALSE(pool.alloc(0)) << "asked for is not committed";
    EXPECT_EQ(pool.committing(0), 1);
    pool.committed(op->to, true);
    EXPECT_EQ(pool.counts(0).free, 4);
    EXPECT_TRUE(pool.alloc(0));
    EXPECT_EQ(pool.counts(0).owned, 1);
    pool.check();
}

TEST(BlockPool, AFailedCommitLeavesTheSegmentUnallocated) {
    block_pool pool(full_layout(), 1);
    const auto op = pool.grow(0);
    pool.committed(op->to, false);
    EXPECT_EQ(pool.unallocated_segments(), 1);
    EXPECT_EQ(pool.counts(0).free, 0);
    EXPECT_TRUE(pool.grow(0));
}

TEST(BlockPool, CountsFollowABlockThroughItsStates) {
    block_pool pool(full_layout(), 1);
    commit(pool, 0);
    const block_id b = *pool.alloc(0);
    pool.cache_ref(0, b);
    EXPECT_EQ(pool.counts(0).owned, 1) << "the sequence still holds it";
    pool.unref(0, b);
    EXPECT_EQ(pool.counts(0).cached, 1);
    EXPECT_TRUE(pool.only_cached(0, b));
    pool.ref(0, b);
    EXPECT_EQ(pool.counts(0).owned, 1);
    pool.unref(0, b);
    pool.cache_unref(0, b);
    EXPECT_EQ(pool.counts(0).free, 4);
    pool.check();
}

TEST(BlockPool, FillsUsedSegmentsBeforeEmptyOnesSoThatThoseCanGo) {
    block_pool pool(full_layout(2), 3);
    for (int i = 0; i < 3; ++i) commit(pool, 0);
    const block_id a = *pool.alloc(0), b = *pool.alloc(0), c = *pool.alloc(0);
    pool.unref(0, a);
    const block_id again = *pool.alloc(0);
    EXPECT_EQ(again, a);
    EXPECT_EQ(pool.empty_segments(), 1);
    const auto ops = pool.release_empty();
    ASSERT_EQ(ops.size(), 1u);
    EXPECT_EQ(ops[0].kind, kv_op_kind::release_segment);
    EXPECT_EQ(ops[0].to, 2u);
    for (const block_id x : {again, b, c}) pool.unref(0, x);
    EXPECT_EQ(pool.release_empty(1).size(), 1u);
    EXPECT_EQ(pool.release_empty().size(), 1u);
    EXPECT_EQ(pool.unallocated_segments(), 3);
    pool.check();
}

TEST(BlockPool, AnEmptySegmentOfAnotherGroupCanBeHadAnUsedOneCannot) {
    block_pool pool(windowed_layout(32), 2);
    commit(pool, 1);
    commit(pool, 1);
    EXPECT_FALSE(pool.grow(0));
    const block_id b = *pool.alloc(1);
    EXPECT_EQ(pool.foreign_empty_segments(0), 1);
    ASSERT_TRUE(pool.release_foreign(0));
    EXPECT_FALSE(pool.release_foreign(0));
    EXPECT_TRUE(pool.grow(0));
    pool.unref(1, b);
    pool.check();
}

TEST(BlockPoolDeathTest, MisuseEndsTheProcess) {
    block_pool pool(full_layout(), 2);
    commit(pool, 0);
    const block_id b = *pool.alloc(0);
    pool.unref(0, b);
    EXPECT_DEATH(pool.unref(0, b), "did not hold");
    EXPECT_DEATH(pool.ref(0, b), "free block");
    EXPECT_DEATH(pool.unref(0, 7), "no segment");
    const block_id c = *pool.alloc(0);
    pool.cache_ref(0, c);
    EXPECT_DEATH(pool.cache_ref(0, c), "cached twice");
    pool.unref(0, c);
    EXPECT_DEATH(pool.unref(0, c), "did not hold") << "only the cache may drop the cache's reference";
}

TEST(BlockPool, RandomUseKeepsTheAccounts) {
    std::mt19937 random(5);
    const auto pick = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
    block_pool pool(windowed_layout(32, 3), 6);
    std::vector<std::pair<std::size_t, block_id>> held, cached;
    for (int step = 0; step < 3000; ++step) {
        const std::size_t group = pick(2);
        switch (pick(7)) {
        case 0:
            if (const auto op = pool.grow(group)) pool.committed(op->to, pick(4) != 0);
            break;
        case 1:
        case 2:
            if (const auto b = pool.alloc(group)) held.emplace_back(group, *b);
            break;
        case 3:
            if (!held.empty()) {
                const auto x = held[pick(held.size())];
                pool.ref(x.first, x.second);
                held.push_back(x);
            }
            break;
        case 4:
            if (!held.empty()) {
                std::swap(held[pick(held.size())], held.back());
                pool.unref(held.back().first, held.back().second);
                held.pop_back();
            }
            break;
        case 5:
            if (!held.empty()) {
                const auto x = held[pick(held.size())];
                if (std::find(cached.begin(), cached.end(), x) != cached.end()) break;
                pool.cache_ref(x.first, x.second);
                cached.push_back(x);
            }
            break;
        case 6:
            if (!cached.empty()) {
                std::swap(cached[pick(cached.size())], cached.back());
                pool.cache_unref(cached.back().first, cached.back().second);
                cached.pop_back();
            } else {
                pool.release_empty(1);
            }
            break;
        }
        pool.check();
        const std::int64_t segments = pool.committed_segments() + pool.unallocated_segments();
        ASSERT_EQ(segments, pool.max_segments());
    }
}

}  // namespace
}  // namespace troupe::actors
