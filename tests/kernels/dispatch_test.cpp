// The choice of a table: forced names give that table, and its ops are its own.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/ops.hpp"

namespace troupe::kernels {
namespace {

TEST(dispatch, a_forced_name_gives_that_table) {
    for (const ops* t : available_tables()) {
        const auto found = table(t->name);
        ASSERT_TRUE(found.ok());
        EXPECT_EQ(*found, t);
        EXPECT_EQ((*found)->name, t->name);
    }
}

TEST(dispatch, ref_is_always_there_and_auto_is_the_best) {
    const auto all = available_tables();
    ASSERT_FALSE(all.empty());
    EXPECT_EQ(all.front()->name, "ref");
    EXPECT_EQ(*table("auto"), all.back());
}

TEST(dispatch, this_processor_gets_what_it_runs) {
    const auto has = [](std::string_view name) {
        const auto all = available_tables();
        return std::any_of(all.begin(), all.end(), [&](const ops* t) { return t->name == name; });
    };
    EXPECT_EQ(has("avx2"), __builtin_cpu_supports("avx2") != 0);
    EXPECT_EQ(has("avx512"), __builtin_cpu_supports("avx512vnni") != 0 && __builtin_cpu_supports("avx512dq") != 0);
}

TEST(dispatch, tables_share_no_arithmetic) {
    const auto all = available_tables();
    for (std::size_t i = 0; i < all.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) {
            EXPECT_NE(all[i]->linear, all[j]->linear);
            EXPECT_NE(all[i]->attention, all[j]->attention);
            EXPECT_NE(all[i]->gated, all[j]->gated);
        }
}

TEST(dispatch, unknown_and_unavailable_names_are_usage_errors_that_name_the_choices) {
    for (const std::string_view name : {"sse9", "", "AVX2", "avx512"}) {
        const auto found = table(name);
        if (found.ok()) {
            EXPECT_EQ((*found)->name, name);
            continue;
        }
        EXPECT_EQ(found.error().code, errc::usage);
        EXPECT_NE(found.error().message.find("ref"), std::string::npos);
        EXPECT_NE(found.error().message.find("auto"), std::string::npos);
    }
}

}  // namespace
}  // namespace troupe::kernels
