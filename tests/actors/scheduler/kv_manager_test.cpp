// Tables of sequences: allocation and its ways out, trimming behind windows, sharing by reference and by copy.
#include "actors/scheduler/kv_manager.hpp"

#include <gtest/gtest.h>

#include "layouts.hpp"

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;
using got = kv_manager::got;
using test::full_layout;
using test::tokens_from;
using test::windowed_layout;

/// Carries out what the manager asks for, as an executor would.
std::vector<kv_op> run_ops(kv_manager& kv, bool commits = true) {
    const auto ops = kv.take_ops();
    for (const auto& op : ops) kv.op_done(op, commits || op.kind != kv_op_kind::commit_segment, steady_time{});
    return ops;
}

sequence_kv fresh(kv_manager& kv) {
    sequence_kv s;
    EXPECT_EQ(kv.adopt(s, {}), 0);
    return s;
}

void grow_to(kv_manager& kv, sequence_kv& s, std::int64_t end) {
    while (kv.extend(s, end) == got::soon) run_ops(kv);
    ASSERT_EQ(kv.extend(s, end), got::all);
}

TEST(KvManager, AsksForSegmentsAndUsesThemOnceCommitted) {
    kv_manager kv(full_layout(), 2);
    auto s = fresh(kv);
    EXPECT_EQ(kv.extend(s, 40), got::soon);
    const auto ops = run_ops(kv);
    ASSERT_EQ(ops.size(), 1u);
    EXPECT_EQ(kv.extend(s, 40), got::all);
    ASSERT_EQ(s.groups[0].blocks.size(), 3u);
    const auto deltas = kv.take_deltas(s);
    ASSERT_EQ(deltas.size(), 1u);
    EXPECT_EQ(deltas[0].first, 0u);
    EXPECT_EQ(deltas[0].blocks, s.groups[0].blocks);
    EXPECT_TRUE(kv.take_deltas(s).empty());
    kv.release(s);
    kv.check({});
}

TEST(KvManager, LatentsAreHeldLikeFullAttention) {
    EXPECT_EQ(layout_of(test::info_of(test::latent_layout(), 4)).groups, test::latent_layout().groups);
    kv_manager kv(test::latent_layout(), 4);
    auto a = fresh(kv);
    grow_to(kv, a, 100);
    EXPECT_EQ(a.groups[0].blocks.size(), 7u);
    kv.publish(a, tokens_from(100, 96), 96);
    kv.release(a);
    sequence_kv b;
    EXPECT_EQ(kv.adopt(b, kv.find(tokens_from(100, 96), 95)), 95) << "all but the token that must be computed";
    kv.release(b);
    kv.check({});
}

TEST(KvManager, PrepareAsksForAllSegmentsAtOnce) {
    kv_manager kv(windowed_layout(32), 8);
    kv.prepare(kv.need(100, 0, 16));  // 7 blocks; the window: (32 + 16) / 16 + 2 = 5
    EXPECT_EQ(kv.pool().committing(0), 2);
    EXPECT_EQ(kv.pool().committing(1), 2);
    run_ops(kv);
}

TEST(KvManager, ShortMemoryAfterAFailedCommitIsNotAskedForAgainAtOnce) {
    kv_manager kv(full_layout(), 4);
    kv.set_now(steady_time{});
    auto s = fresh(kv);
    EXPECT_EQ(kv.extend(s, 16), got::soon);
    run_ops(kv, false);
    EXPECT_EQ(kv.extend(s, 16), got::short_);
    EXPECT_FALSE(kv.fits(kv.need(16, 0, 16)));
    kv.set_now(kv.blocked_until());
    EXPECT_TRUE(kv.fits(kv.need(16, 0, 16)));
    EXPECT_EQ(kv.extend(s, 16), got::soon);
}

TEST(KvManager, EvictsTheCacheBeforeItSaysShort) {
    kv_manager kv(full_layout(), 1);
    auto a = fresh(kv);
    grow_to(kv, a, 64);
    kv.publish(a, tokens_from(100, 64), 64);
    kv.release(a);
    EXPECT_EQ(kv.pool().counts(0).cached, 4);
    auto b = fresh(kv);
    EXPECT_EQ(kv.extend(b, 32), got::all);
    EXPECT_EQ(kv.pool().counts(0).cached, 2);
    auto c = fresh(kv);
    EXPECT_EQ(kv.extend(c, 48), got::short_) << "two are held, two are evicted, the third is not there";
    kv.release(b);
    kv.release(c);
    kv.check({});
}

TEST(KvManager, AForeignGroupsCachedBlocksMakeWayForASegment) {
    kv_manager kv(windowed_layout(32), 2);
    auto a = fresh(kv);
    grow_to(kv, a, 64);  // one segment each
    kv.publish(a, tokens_from(100, 64), 64);
    kv.release(a);
    auto b = fresh(kv);
    for (int i = 0; i < 10 && kv.extend(b, 16 * 4) != got::all; ++i) run_ops(kv);
    kv.trim(b, 64, true);
    got r = got::soon;
    for (int i = 0; i < 10 && r == got::soon; ++i) {
        r = kv.extend(b, 16 * 5);
        run_ops(kv);
    }
    EXPECT_EQ(r, got::short_) << "each group needs its segment: there is no third";
    kv.release(b);
    kv.check({});
}

TEST(KvManager, BlocksBehindTheWindowGoBackAndTheTableSaysSo) {
    kv_manager kv(windowed_layout(32), 16);
    auto s = fresh(kv);
    grow_to(kv, s, 160);
    kv.take_deltas(s);
    kv.publish(s, tokens_from(100, 160), 160);
    kv.trim(s, 159, false);  // a row at 159 sees from 128 on: block 8
    EXPECT_EQ(s.groups[1].live, 8u);
    EXPECT_EQ(kv.pool().counts(1).owned, 2);
    EXPECT_EQ(kv.pool().counts(1).cached, 8) << "they stay in the tree";
    EXPECT_EQ(kv.pool().counts(0).owned, 10);
    const auto deltas = kv.take_deltas(s);
    ASSERT_EQ(deltas.size(), 1u);
    EXPECT_EQ(deltas[0].group, 1u);
    EXPECT_EQ(deltas[0].first, 0u);
    EXPECT_EQ(deltas[0].blocks, std::vector<block_id>(8, no_block));
    const sequence_kv* held[] = {&s};
    kv.check(held);
    kv.release(s);
    kv.check({});
}

TEST(KvManager, BeforeThePromptIsPublishedTrimKeepsItsBlocksUnlessMemoryIsShort) {
    kv_manager kv(windowed_layout(32), 16);
    auto s = fresh(kv);
    grow_to(kv, s, 160);
    kv.trim(s, 128, false);
    EXPECT_EQ(s.groups[1].live, 0u);
    kv.trim(s, 128, true);  // sees from 97 on: block 6
    EXPECT_EQ(s.groups[1].live, 6u);
    kv.publish(s, tokens_from(100, 160), 160);
    EXPECT_EQ(kv.pool().counts(1).owned, 4);
    kv.release(s);
    EXPECT_EQ(kv.find(tokens_from(100, 160), 159).n_tokens(), 159);
    kv.check({});
}

TEST(KvManager, ASecondSequenceSharesBlocksAndCopiesThePartialOne) {
    kv_manager kv(full_layout(), 8);
    const auto tokens = tokens_from(100, 64);
    auto a = fresh(kv);
    grow_to(kv, a, 64);
    kv.publish(a, tokens, 64);
    run_ops(kv);
    sequence_kv b;
    EXPECT_EQ(kv.adopt(b, kv.find(tokens, 63)), 0 + 48) << "no free block for the copy yet";
    kv.release(b);
    run_ops(kv);
    EXPECT_EQ(kv.adopt(b, kv.find(tokens, 63)), 63);
    const auto ops = kv.take_ops();
    ASSERT_EQ(ops.size(), 1u);
    EXPECT_EQ(ops[0].kind, kv_op_kind::copy_block);
    EXPECT_EQ(ops[0].from, a.groups[0].blocks[3]);
    EXPECT_EQ(ops[0].to, b.groups[0].blocks[3]);
    EXPECT_EQ(b.groups[0].blocks[0], a.groups[0].blocks[0]);
    const sequence_kv* held[] = {&a, &b};
    kv.check(held);
    kv.release(a);
    kv.release(b);
    EXPECT_EQ(kv.pool().counts(0).owned, 0);
    kv.check({});
}

TEST(KvManager, WhoPublishesTheSameLaterHoldsTheFirstOnesBlocks) {
    kv_manager kv(full_layout(), 8);
    const auto tokens = tokens_from(100, 32);
    auto a = fresh(kv), b = fresh(kv);
    grow_to(kv, a, 32);
    grow_to(kv, b, 32);
    kv.take_deltas(b);
    kv.publish(a, tokens, 32);
    EXPECT_EQ(kv.pool().counts(0).owned, 4);
    kv.publish(b, tokens, 32);
    EXPECT_EQ(kv.pool().counts(0).owned, 2) << "the same bits are kept once";
    EXPECT_EQ(b.groups[0].blocks, a.groups[0].blocks);
    const auto deltas = kv.take_deltas(b);
    ASSERT_EQ(deltas.size(), 1u) << "the executor hears of the exchange";
    EXPECT_EQ(deltas[0].blocks, a.groups[0].blocks);
    kv.release(a);
    kv.release(b);
    kv.check({});
}

TEST(KvManager, GivingBackEvictsTheColdAndKeepsWhatIsOwned) {
    kv_manager kv(full_layout(), 8);
    auto a = fresh(kv);
    grow_to(kv, a, 16 * 16);
    kv.publish(a, tokens_from(100, 256), 256);
    auto b = fresh(kv);
    grow_to(kv, b, 16);
    run_ops(kv);
    kv.release(a);
    kv.give_back({steady_time{}, 0});
    kv.pack();
    EXPECT_EQ(kv.pool().committed_segments(), 5) << "nothing was used before";
    kv.give_back({steady_time{} + 1ns, 2});
    kv.pack();
    EXPECT_EQ(kv.pool().committed_segments(), 3) << "one needed, two spare";
    kv.give_back({steady_time::max(), 0});
    kv.pack();
    EXPECT_EQ(kv.pool().committed_segments(), 1) << "what is owned stays";
    EXPECT_EQ(kv.cache().n_nodes(), 0);
    kv.release(b);
    kv.give_back({steady_time::max(), 0});
    kv.pack();
    EXPECT_EQ(kv.pool().committed_segments(), 0);
    std::size_t released = 0;
    for (const auto& op : kv.take_ops()) released += op.kind == kv_op_kind::release_segment;
    EXPECT_EQ(released, 5u);
}

TEST(KvManager, LiveBlocksMoveTogetherAndTheirTablesFollow) {
    kv_manager kv(full_layout(), 16);
    std::vector<sequence_kv> all(12);
    kv.set_holders([&] {
        std::vector<sequence_kv*> holders;
        for (auto& s : all) holders.push_back(&s);
        return holders;
    });
    for (auto& s : all) {
        kv.adopt(s, {});
        grow_to(kv, s, 32);
        kv.take_deltas(s);
    }
    run_ops(kv);
    for (std::size_t i = 0; i < all.size(); i += 2) kv.release(all[i]);  // every segment is half full
    kv.publish(all[1], tokens_from(100, 32), 32);                        // a block of the cache moves like any other
    ASSERT_EQ(kv.pool().committed_segments(), 6);
    EXPECT_EQ(kv.pool().needed_segments(), 3);
    kv.give_back({{}, 0});
    int plans = 0;
    std::vector<const sequence_kv*> held;
    for (const auto& s : all) held.push_back(&s);
    for (; kv.packing(); ++plans) {
        kv.pack();
        kv.check(held);
        std::size_t copies = 0, released = 0;
        for (const kv_op& op : run_ops(kv)) {
            copies += op.kind == kv_op_kind::copy_block;
            released += op.kind == kv_op_kind::release_segment;
        }
        EXPECT_LE(copies, 4u) << "at most a segment's blocks with one plan";
        EXPECT_EQ(released, 1u);
    }
    EXPECT_EQ(plans, 3);
    EXPECT_EQ(kv.pool().committed_segments(), 3);
    std::size_t told = 0;
    for (auto& s : all)
        for (const auto& d : kv.take_deltas(s)) told += d.blocks.size();
    EXPECT_EQ(told, 6u) << "the executor hears of every move";
    EXPECT_EQ(kv.find(tokens_from(100, 32), 31).copy_from->blocks[0], all[1].groups[0].blocks[1]);
    for (auto& s : all) kv.release(s);
    kv.check({});
}

TEST(KvManager, ABlockThatIsReadBesideTheStepsStays) {
    kv_manager kv(full_layout(), 4);
    sequence_kv a, b;
    kv.set_holders([&] { return std::vector<sequence_kv*>{&a, &b}; });
    kv.adopt(a, {});
    kv.adopt(b, {});
    grow_to(kv, a, 64);
    grow_to(kv, b, 16);
    sequence_kv c;
    kv.adopt(c, {});
    kv.release(c);
    const_cast<block_pool&>(kv.pool()).fix(0, b.groups[0].blocks[0]);
    kv.release(a);
    kv.adopt(a, {});
    grow_to(kv, a, 64 + 16);
    EXPECT_EQ(kv.pool().emptiable(0), std::nullopt);
    const_cast<block_pool&>(kv.pool()).unfix(0, b.groups[0].blocks[0]);
    kv.release(a);
    kv.release(b);
    kv.check({});
}

TEST(KvManager, SegmentsOfAnotherGroupAreEmptiedForOneThatNeedsThem) {
    kv_manager kv(windowed_layout(16), 4);
    std::vector<sequence_kv> all(8);
    kv.set_holders([&] {
        std::vector<sequence_kv*> holders;
        for (auto& s : all) holders.push_back(&s);
        return holders;
    });
    for (auto& s : all) {
        kv.adopt(s, {});
        grow_to(kv, s, 16);
    }
    // One block is left in each segment of the window; no segment is empty.
    for (std::size_t i = 0; i < all.size(); ++i)
        if (i % 4 != 0) kv.release(all[i]);
    ASSERT_EQ(kv.pool().committed_segments(), 4);
    for (std::int64_t end = 32; end <= 160; end += 16) {
        grow_to(kv, all[0], end);
        run_ops(kv);
        kv.trim(all[0], end, true);
    }
    EXPECT_EQ(kv.pool().counts(0).owned, 11) << "three segments: the window had to give one";
    EXPECT_EQ(kv.take_blocks_moved(), 1u);
    const sequence_kv* held[] = {&all[0], &all[4]};
    kv.check(held);
    kv.release(all[0]);
    kv.release(all[4]);
    kv.check({});
}

TEST(KvManager, LongestSequenceIsWhatMemoryHolds) {
    EXPECT_EQ(kv_manager(full_layout(), 8).longest_sequence(), 8 * 4 * 16);
    const kv_manager windowed(windowed_layout(32), 8);
    // The window takes 5 blocks, two segments, and one is kept in reserve for its straddling: 5 segments are left.
    EXPECT_EQ(windowed.longest_sequence(), 5 * 4 * 16);
}

}  // namespace
}  // namespace troupe::actors
