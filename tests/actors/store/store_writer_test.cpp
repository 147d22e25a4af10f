// What becomes of writes when the disk takes them, refuses them, and comes back.
#include "actors/store/store_writer.hpp"

#include <gtest/gtest.h>

#include "core/limits.hpp"

namespace troupe::actors {
namespace {

store_writer::rows tokens(const std::string& generation, std::int64_t pos) {
    return std::make_shared<const std::vector<record>>(std::vector<record>{append_tokens{generation, pos, {1, 2}}});
}

struct disk {
    bool full = false;
    std::vector<std::int64_t> positions;  ///< in the order they were written
    int transactions = 0;
    apply_records apply() {
        return [this](std::span<const record> records) -> result<void> {
            if (full) return fail(errc::io, "no space left");
            ++transactions;
            for (const auto& r : records) positions.push_back(std::get<append_tokens>(r).pos);
            return {};
        };
    }
};

TEST(StoreWriter, WhatWaitsIsOneTransaction) {
    disk d;
    store_writer w(std::make_shared<store_backlog>());
    const std::vector<store_writer::rows> writes{tokens("a", 0), tokens("b", 1)};
    EXPECT_EQ(w.commit(writes, d.apply()), (std::vector{saved::durable, saved::durable}));
    EXPECT_EQ(d.transactions, 1);
    EXPECT_EQ(w.commits(), 1u);
    EXPECT_EQ(w.records_written(), 2u);
    EXPECT_FALSE(w.degraded());
}

TEST(StoreWriter, WhatTheDiskRefusesWaitsInOrderAndIsToldToBeDeferred) {
    disk d;
    auto backlog = std::make_shared<store_backlog>();
    store_writer w(backlog);
    d.full = true;
    EXPECT_EQ(w.commit(std::vector{tokens("a", 0)}, d.apply()), (std::vector{saved::deferred}));
    EXPECT_TRUE(w.degraded());
    EXPECT_EQ(w.reason(), "no space left");
    d.full = false;
    EXPECT_EQ(w.commit(std::vector{tokens("a", 2)}, d.apply()), (std::vector{saved::deferred}))
        << "what came before is not written yet";
    // The store's actor dies; its successor has the same backlog.
    store_writer next(backlog);
    EXPECT_TRUE(next.retry(d.apply()).ok());
    EXPECT_FALSE(next.degraded());
    EXPECT_EQ(next.commit(std::vector{tokens("a", 4)}, d.apply()), (std::vector{saved::durable}));
    EXPECT_EQ(d.positions, (std::vector<std::int64_t>{0, 2, 4}));
}

TEST(StoreWriter, RetryKeepsWhatTheDiskStillRefuses) {
    disk d;
    d.full = true;
    store_writer w(std::make_shared<store_backlog>());
    w.commit(std::vector{tokens("a", 0)}, d.apply());
    EXPECT_FALSE(w.retry(d.apply()).ok());
    EXPECT_EQ(w.backlog().size(), 1u);
    EXPECT_TRUE(w.degraded());
}

TEST(StoreWriter, WithoutADiskEverythingWaitsUpToTheBound) {
    store_writer w(std::make_shared<store_backlog>());
    EXPECT_EQ(w.commit(std::vector{tokens("a", 0)}, {}), (std::vector{saved::deferred}));
    append_tokens huge{"a", 2, {}};
    huge.tokens.resize(limits::store_backlog_bytes / 4);
    const auto rows = std::make_shared<const std::vector<record>>(std::vector<record>{std::move(huge)});
    EXPECT_EQ(w.commit(std::vector<store_writer::rows>{rows}, {}), (std::vector{saved::refused}));
}

}  // namespace
}  // namespace troupe::actors
