// KV segments: zero when committed, gone when released, checked against what the host has.
#include "model/kv_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <unistd.h>

namespace troupe::testing {
namespace {

constexpr std::uint64_t segment = 4u << 20;

model::kv_layout two_groups() {
    model::kv_layout layout;
    layout.segment_bytes = segment;
    layout.groups = {{.window = 0, .n_layers = 1, .block_bytes = 4096, .blocks_per_segment = segment / 4096},
        {.window = 16, .n_layers = 5, .block_bytes = 20480, .blocks_per_segment = segment / 20480}};
    return layout;
}

bool all_bytes(const std::byte* p, std::size_t n, std::byte value) {
    return std::all_of(p, p + n, [&](std::byte b) { return b == value; });
}

std::uint64_t resident_bytes() {
    std::uint64_t total = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> total >> resident;
    return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

TEST(kv_memory, reserves_addresses_not_memory) {
    const auto before = resident_bytes();
    const auto memory = model::kv_memory::reserve(two_groups(), 4096);
    ASSERT_TRUE(memory.ok());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*memory)->base()) % (2u << 20), 0u);
    EXPECT_EQ((*memory)->committed_bytes(), 0u);
    EXPECT_LT(resident_bytes() - before, segment);
}

TEST(kv_memory, a_committed_segment_is_zero_and_present_also_the_second_time) {
    auto memory = *model::kv_memory::reserve(two_groups(), 4);
    std::byte* at = memory->base() + 2 * segment;
    for (int round = 0; round < 2; ++round) {
        const auto before = resident_bytes();
        ASSERT_TRUE(memory->commit(2).ok());
        EXPECT_GE(resident_bytes() - before, segment / 2) << "no page may be missing when a step comes";
        EXPECT_TRUE(memory->committed(2));
        EXPECT_EQ(memory->committed_bytes(), segment);
        EXPECT_TRUE(all_bytes(at, segment, std::byte{0}));
        std::memset(at, 0xab, segment);
        const auto full = resident_bytes();
        memory->release(2);
        EXPECT_GE(full - resident_bytes(), segment / 2) << "pages go back to the system";
    }
    EXPECT_EQ(memory->committed_bytes(), 0u);
}

TEST(kv_memory, refuses_what_the_host_has_not) {
    auto memory = *model::kv_memory::reserve(two_groups(), 4);
    const auto refused = memory->commit(1, std::uint64_t{1} << 50);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, errc::out_of_memory);
    EXPECT_FALSE(memory->committed(1));
    EXPECT_TRUE(memory->commit(1).ok()) << "a refusal leaves the segment as it was";
}

TEST(kv_memory, refuses_a_range_no_address_space_has) {
    EXPECT_EQ(model::kv_memory::reserve(two_groups(), 0xffff'ffff).error().code, errc::out_of_memory);
}

TEST(kv_memory, copies_and_zeroes_blocks_of_a_group) {
    auto memory = *model::kv_memory::reserve(two_groups(), 2);
    ASSERT_TRUE(memory->commit(0).ok() && memory->commit(1).ok());
    const auto layout = two_groups();
    const model::block_id from = 3, to = layout.groups[1].blocks_per_segment + 7;  // in segment 1
    std::byte *source = memory->base() + layout.offset(1, from), *target = memory->base() + layout.offset(1, to);
    EXPECT_EQ(layout.segment_of(1, to), 1u);
    std::memset(source, 0x5a, layout.groups[1].block_bytes);
    memory->copy_block(1, from, to);
    EXPECT_TRUE(all_bytes(target, layout.groups[1].block_bytes, std::byte{0x5a}));
    EXPECT_EQ(target[-1], std::byte{0});
    EXPECT_EQ(target[layout.groups[1].block_bytes], std::byte{0});
    memory->zero_block(1, from);
    EXPECT_TRUE(all_bytes(source, layout.groups[1].block_bytes, std::byte{0}));
}

TEST(kv_memory_death, a_block_of_a_segment_that_is_not_there_is_a_bug) {
    auto memory = *model::kv_memory::reserve(two_groups(), 2);
    EXPECT_DEATH(memory->zero_block(0, 0), "not committed");
    EXPECT_DEATH(memory->release(0), "not committed");
}

}  // namespace
}  // namespace troupe::testing
