// The error table: every code has a wire name of its own, a status and a type.
#include "core/error.hpp"

#include <set>

#include <gtest/gtest.h>

namespace troupe {
namespace {

TEST(error, names_are_unique_and_found_again) {
    std::set<std::string_view> names;
    for (int i = 0; i < static_cast<int>(errc::count_); ++i) {
        const auto& row = info(static_cast<errc>(i));
        EXPECT_TRUE(names.insert(row.name).second) << row.name;
        EXPECT_EQ(errc_from_name(row.name), row.code);
        EXPECT_GE(row.http_status, 400);
        EXPECT_FALSE(row.openai_type.empty());
    }
    EXPECT_EQ(errc_from_name("no such code"), errc::internal);
}

TEST(error, statuses_of_the_contract) {
    EXPECT_EQ(info(errc::context_length_exceeded).http_status, 400);
    EXPECT_EQ(info(errc::queue_full).http_status, 429);
    EXPECT_EQ(info(errc::not_ready).http_status, 503);
    EXPECT_EQ(info(errc::model_not_found).http_status, 404);
    EXPECT_EQ(info(errc::payload_too_large).http_status, 413);
    EXPECT_EQ(info(errc::address_in_use).exit_code, 3);
    EXPECT_EQ(info(errc::model_malformed).exit_code, 4);
    EXPECT_EQ(info(errc::out_of_memory).exit_code, 5);
    EXPECT_EQ(info(errc::usage).exit_code, 2);
}

}  // namespace
}  // namespace troupe
