// The radix tree: longest usable match under the window rule, partial blocks, eviction order, checkpoints.
#include "actors/scheduler/prefix_cache.hpp"

#include <gtest/gtest.h>

#include "layouts.hpp"

namespace troupe::actors {
namespace {

using test::full_layout;
using test::tokens_from;
using test::windowed_layout;

/// A pool with everything committed, a cache over it, and sequences that put their tokens into it and leave.
struct fixture {
    explicit fixture(model::kv_layout l, int segments = 64)
        : layout(std::move(l)), pool(layout, static_cast<std::uint64_t>(segments)), cache(pool, layout) {
        for (int i = 0; i < segments; ++i) {
            const auto op = pool.grow(static_cast<std::size_t>(i) % layout.groups.size());
            pool.committed(op->to, true);
        }
    }
    /// Publishes the full blocks of `tokens`; blocks before `window_from` have no window reference. Returns the last
    /// node.
    prefix_cache::node* put(const std::vector<token_id>& tokens, std::size_t window_from = 0) {
        prefix_cache::node* at = nullptr;
        for (std::size_t i = 0; (i + 1) * 16 <= tokens.size(); ++i) {
            std::vector<block_id> blocks;
            for (std::size_t g = 0; g < layout.groups.size(); ++g)
                blocks.push_back(layout.groups[g].window > 0 && i < window_from ? no_block : *pool.alloc(g));
            at = cache.insert(at, std::span(tokens).subspan(i * 16, 16), blocks);
            for (std::size_t g = 0; g < blocks.size(); ++g)
                if (blocks[g] != no_block) pool.unref(g, blocks[g]);
        }
        return at;
    }
    std::int64_t found(const std::vector<token_id>& tokens, std::int64_t most) const {
        return cache.find(tokens, most).n_tokens();
    }
    void check() const {
        pool.check();
        cache.check();
    }
    model::kv_layout layout;
    block_pool pool;
    prefix_cache cache;
};

TEST(PrefixCache, FindsTheLongestSharedPrefixButNotTheWholePrompt) {
    fixture f(full_layout());
    const auto prompt = tokens_from(100, 64);
    f.put(prompt);
    EXPECT_EQ(f.found(prompt, 64), 64);
    EXPECT_EQ(f.found(prompt, 63), 63) << "three blocks and 15 tokens by copy";
    auto other = prompt;
    other[40] = 7;
    EXPECT_EQ(f.found(other, 63), 40) << "two blocks and 8 tokens by copy";
    other[0] = 7;
    EXPECT_EQ(f.found(other, 63), 0);
    f.check();
}

TEST(PrefixCache, TokensAreComparedNotOnlyCounted) {
    fixture f(full_layout());
    f.put(tokens_from(100, 32));
    f.put(tokens_from(500, 32));
    const auto m = f.cache.find(tokens_from(500, 32), 32);
    ASSERT_EQ(m.path.size(), 2u);
    EXPECT_EQ(m.path[0]->key[0], tokens_from(500, 1)[0]);
}

TEST(PrefixCache, PartialBlockPicksTheChildThatSharesMost) {
    fixture f(full_layout());
    auto a = tokens_from(100, 32), b = a, c = a;
    a[20] = 1;
    b[28] = 999;
    c[24] = 2;
    for (const auto& t : {a, b, c}) f.put(t);
    const auto m = f.cache.find(tokens_from(100, 32), 31);
    EXPECT_EQ(m.path.size(), 1u);
    EXPECT_EQ(m.copied, 12);
    EXPECT_EQ(m.copy_from->key[12], 999);
}

TEST(PrefixCache, TheSameTokensAreStoredOnce) {
    fixture f(full_layout());
    f.put(tokens_from(100, 48));
    const auto before = f.pool.counts(0).cached;
    f.put(tokens_from(100, 48));
    EXPECT_EQ(f.pool.counts(0).cached, before);
    EXPECT_EQ(f.cache.n_nodes(), 3);
    f.check();
}

TEST(PrefixCache, WindowReferencesMustCoverTheWindowBeforeTheMatch) {
    fixture f(windowed_layout(32));
    const auto tokens = tokens_from(100, 160);  // 10 blocks
    f.put(tokens, 6);                           // window references only from block 6 on
    // At 160 a row sees from 160 - 32 + 1 = 129 on: block 8. Usable.
    EXPECT_EQ(f.found(tokens, 160), 160);
    // At 128: from 97, block 6. Usable. At 112: from 81, block 5, which is absent.
    EXPECT_EQ(f.found(tokens, 128), 128);
    EXPECT_EQ(f.found(tokens, 127), 127) << "by copy of block 7: sees from 96, block 6";
    EXPECT_EQ(f.found(tokens, 126), 0) << "sees from 95, block 5, and so does everything before";
    auto shorter = std::vector<token_id>(tokens.begin(), tokens.begin() + 112);
    EXPECT_EQ(f.found(shorter, 111), 0);
}

TEST(PrefixCache, APrefixShorterThanTheWindowNeedsAllItsReferences) {
    fixture f(windowed_layout(512));
    const auto tokens = tokens_from(100, 64);
    f.put(tokens);
    EXPECT_EQ(f.found(tokens, 63), 63);
    fixture g(windowed_layout(512));
    g.put(tokens, 1);
    EXPECT_EQ(g.found(tokens, 63), 0);
}

TEST(PrefixCache, AWindowReferenceThatIsMissingIsFilledInLater) {
    fixture f(windowed_layout(32));
    const auto tokens = tokens_from(100, 64);
    f.put(tokens, 3);
    EXPECT_EQ(f.found(tokens, 63), 0);
    f.put(tokens, 0);
    EXPECT_EQ(f.found(tokens, 63), 63);
    f.check();
}

TEST(PrefixCache, EvictsLeastRecentlyUsedLeavesAndNeverWhatIsInUse) {
    fixture f(full_layout());
    const auto old = tokens_from(100, 32), recent = tokens_from(500, 32);
    f.put(old);
    f.put(recent);
    f.cache.touch(f.cache.find(old, 32));  // now the other one is older
    ASSERT_TRUE(f.cache.evict(0));
    EXPECT_EQ(f.found(recent, 32), 16);
    EXPECT_EQ(f.found(old, 32), 32);
    const auto m = f.cache.find(old, 32);
    for (const auto* n : m.path) f.pool.ref(0, n->blocks[0]);
    ASSERT_TRUE(f.cache.evict(0));
    EXPECT_FALSE(f.cache.evict(0)) << "the rest is held";
    EXPECT_EQ(f.found(old, 32), 32);
    for (const auto* n : m.path) f.pool.unref(0, n->blocks[0]);
    f.cache.pin(m.path.back());
    EXPECT_FALSE(f.cache.evict(0)) << "pinned, and its parent is no leaf";
    f.cache.unpin(m.path.back());
    EXPECT_TRUE(f.cache.evict(0));
    EXPECT_TRUE(f.cache.evict(0));
    EXPECT_EQ(f.cache.n_nodes(), 0);
    f.check();
}

TEST(PrefixCache, WindowReferencesOutsideCheckpointsGoFirst) {
    fixture f(windowed_layout(32));
    const auto tokens = tokens_from(100, 160);
    f.cache.mark_checkpoint(f.put(tokens));
    // 32 / 16 + 1 = 3 blocks are kept; the 7 before go first, oldest first.
    for (int i = 0; i < 7; ++i) ASSERT_TRUE(f.cache.evict(1));
    EXPECT_EQ(f.pool.counts(1).cached, 3);
    EXPECT_EQ(f.found(tokens, 160), 160) << "the end of the turn is still usable";
    EXPECT_EQ(f.pool.counts(0).cached, 10) << "full attention is untouched";
    ASSERT_TRUE(f.cache.evict(1));
    EXPECT_EQ(f.pool.counts(1).cached, 2);
    f.check();
}

TEST(PrefixCache, APathKeepsItsFirstAndItsThreeLatestCheckpoints) {
    fixture f(windowed_layout(16));
    const auto tokens = tokens_from(100, 16 * 40);
    f.put(tokens);
    const auto path = f.cache.find(tokens, 640).path;
    for (const std::size_t end : {5u, 10u, 15u, 20u, 25u, 30u}) f.cache.mark_checkpoint(path[end]);
    std::vector<int> kept;
    for (std::size_t i = 0; i < path.size(); ++i)
        if (path[i]->checkpoint_end) kept.push_back(static_cast<int>(i));
    EXPECT_EQ(kept, (std::vector<int>{5, 20, 25, 30}));
    for (const std::size_t gone : {10u, 9u, 15u, 14u}) EXPECT_EQ(path[gone]->checkpoints, 0);
    for (const std::size_t stays : {5u, 4u, 30u, 29u}) EXPECT_EQ(path[stays]->checkpoints, 1);
    f.check();
}

TEST(PrefixCache, WithoutFullAttentionEmptyNodesDisappear) {
    model::kv_layout l;
    l.segment_bytes = 4096;
    l.groups = {{32, 2, 1024, 4}};
    fixture f(l);
    f.put(tokens_from(100, 96));
    EXPECT_EQ(f.found(tokens_from(100, 96), 95), 95);
    while (f.cache.evict(0)) {
    }
    EXPECT_EQ(f.cache.n_nodes(), 0);
    f.check();
}

TEST(PrefixCache, EvictingAllThereIsEmptiesEverything) {
    fixture f(windowed_layout(32));
    f.cache.mark_checkpoint(f.put(tokens_from(100, 160)));
    f.put(tokens_from(500, 64), 2);
    while (f.cache.evict(0) || f.cache.evict(1)) {
    }
    EXPECT_EQ(f.cache.n_nodes(), 0);
    EXPECT_EQ(f.pool.counts(0).cached + f.pool.counts(1).cached, 0);
    f.check();
}

}  // namespace
}  // namespace troupe::actors
