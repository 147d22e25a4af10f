// Ids: unique, sortable by time, and client-made ones checked by the letter.
#include "core/ids.hpp"

#include <set>

#include <gtest/gtest.h>

namespace troupe {
namespace {

TEST(ids, are_unique_and_well_formed) {
    std::set<std::string> seen;
    for (int i = 0; i < 10000; ++i) {
        const auto id = make_id("ses_");
        ASSERT_EQ(id.size(), 30u);
        ASSERT_TRUE(id.starts_with("ses_"));
        ASSERT_TRUE(is_client_id(id));
        ASSERT_TRUE(seen.insert(id).second);
    }
}

TEST(ids, time_comes_first) {
    // The first ten characters hold the 48 bits of the millisecond and two more.
    const auto a = make_id(""), b = make_id("");
    EXPECT_LE(a.substr(0, 9), b.substr(0, 9));
}

TEST(ids, client_ids) {
    EXPECT_TRUE(is_client_id("a"));
    EXPECT_TRUE(is_client_id(std::string(64, 'Z')));
    EXPECT_TRUE(is_client_id("Az09_-"));
    for (const auto* bad : {"", "a b", "\xc3\xa4", "a/b", "a.b"}) EXPECT_FALSE(is_client_id(bad)) << bad;
    EXPECT_FALSE(is_client_id(std::string(65, 'a')));
    EXPECT_FALSE(is_client_id(std::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace troupe
