#include "net/url.hpp"

#include <gtest/gtest.h>

namespace troupe::net {
namespace {

TEST(url, path_and_query) {
    const auto u = split_target("/v1/sessions/a%2Fb?limit=5&after=&search=a+b%20c&flag");
    EXPECT_EQ(u.path, "/v1/sessions/a/b");
    EXPECT_EQ(u.query.at("limit"), "5");
    EXPECT_EQ(u.query.at("after"), "");
    EXPECT_EQ(u.query.at("search"), "a b c");
    EXPECT_EQ(u.query.at("flag"), "");
}

TEST(url, malformed_escapes_stay) {
    EXPECT_EQ(split_target("/a%zz%4").path, "/a%zz%4");
    EXPECT_EQ(split_target("").path, "");
    EXPECT_TRUE(split_target("/x?&&").query.empty());
    EXPECT_EQ(split_target("/a+b").path, "/a+b");
}

TEST(url, absolute_form) {
    EXPECT_EQ(split_target("http://localhost:8080/health?x=1").path, "/health");
    EXPECT_EQ(split_target("https://localhost").path, "/");
}

}  // namespace
}  // namespace troupe::net
