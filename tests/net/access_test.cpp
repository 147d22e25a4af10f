#include "net/access.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace troupe::net {
namespace {

std::shared_ptr<access_rules> rules(config c = {}, bool tls = false) { return *access_rules::make(c, tls); }

TEST(access, hosts_of_a_loopback_server) {
    const auto r = rules();
    for (const auto* good : {"localhost", "LocalHost:80", "127.0.0.1:8080", "[::1]", "[::1]:1"})
        EXPECT_TRUE(r->host_allowed(good)) << good;
    for (const auto* bad : {"", "evil.example", "localhost.evil.com", "127.0.0.1.evil.com", "xlocalhost", "127.0.0.2",
             "192.168.1.1", "localhost:", "localhost:8a", "localhost:123456", "[::1", "[::1]x", "user@localhost",
             "localhost, evil.example"})
        EXPECT_FALSE(r->host_allowed(bad)) << bad;
}

TEST(access, listed_hosts_and_open_binds) {
    config c;
    c.allowed_hosts = {"Box.local"};
    EXPECT_TRUE(rules(c)->host_allowed("box.local:9000"));
    EXPECT_FALSE(rules(c)->host_allowed("otherbox.local"));
    c.host = "0.0.0.0";
    EXPECT_EQ(access_rules::make(c, false).error().code, errc::usage);
    c.api_keys = {"k"};
    EXPECT_TRUE(rules(c)->host_allowed("192.168.1.5:8080"));
    EXPECT_FALSE(rules(c)->host_allowed("evil.example"));
}

TEST(access, origins_are_compared_whole) {
    const auto r = rules();
    EXPECT_TRUE(r->origin_allowed("", "localhost:8080"));
    EXPECT_TRUE(r->origin_allowed("http://localhost:8080", "localhost:8080"));
    for (const auto* bad : {"null", "http://localhost", "http://localhost:8081", "https://localhost:8080",
             "http://localhost:8080.evil.com", "http://evil.example", "http://127.0.0.1:8080"})
        EXPECT_FALSE(r->origin_allowed(bad, "localhost:8080")) << bad;
    EXPECT_TRUE(rules({}, true)->origin_allowed("https://localhost:8080", "localhost:8080"));
    config c;
    c.allowed_origins = {"http://app.example"};
    EXPECT_TRUE(rules(c)->origin_allowed("http://app.example", "localhost:8080"));
    EXPECT_FALSE(rules(c)->origin_allowed("http://app.example:81", "localhost:8080"));
}

TEST(access, keys_and_roles) {
    EXPECT_TRUE(rules()->authenticate("")->admin);
    config c;
    c.api_keys = {"user", "boss:admin"};
    const auto r = rules(c);
    EXPECT_TRUE(r->keys_set());
    EXPECT_FALSE(r->authenticate("").has_value());
    EXPECT_FALSE(r->authenticate("use").has_value());
    EXPECT_FALSE(r->authenticate("boss:admin").has_value());
    EXPECT_FALSE(r->authenticate("user")->admin);
    EXPECT_TRUE(r->authenticate("boss")->admin);
    EXPECT_EQ(r->authenticate("user")->name.find("user"), std::string::npos)
        << "the identity must not give the key away";
    c.api_keys = {"first", "second"};
    EXPECT_TRUE(rules(c)->authenticate("first")->admin);
    EXPECT_FALSE(rules(c)->authenticate("second")->admin);
}

TEST(access, bearer) {
    EXPECT_EQ(access_rules::bearer("Bearer abc"), "abc");
    EXPECT_EQ(access_rules::bearer("bearer   abc"), "abc");
    EXPECT_EQ(access_rules::bearer("Basic abc"), "");
    EXPECT_EQ(access_rules::bearer("Bearer"), "");
}

TEST(access, key_file_is_read_again) {
    const auto path = testing::TempDir() + "troupe_access_test_keys";
    std::ofstream(path) << "# comment\nold\n\n";
    config c;
    c.api_key_file = path;
    const auto r = rules(c);
    EXPECT_TRUE(r->authenticate("old").has_value());
    std::ofstream(path) << "new\n";
    ASSERT_TRUE(r->reload().ok());
    EXPECT_FALSE(r->authenticate("old").has_value());
    EXPECT_TRUE(r->authenticate("new").has_value());
    std::filesystem::remove(path);
    EXPECT_FALSE(r->reload().ok());
    EXPECT_TRUE(r->authenticate("new").has_value()) << "a failed reload keeps the old keys";
    EXPECT_EQ(access_rules::make(c, false).error().code, errc::usage);
}

}  // namespace
}  // namespace troupe::net
