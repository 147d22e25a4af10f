// The option table: one declaration gives flag, TOML key, variable, range and default, and the order of sources holds.
#include "core/options.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

namespace troupe {
namespace {

struct variable {
    variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
    ~variable() { unsetenv(name_); }
    const char* name_;
};

struct temporary_file {
    explicit temporary_file(const std::string& text) : path(testing::TempDir() + "troupe_options_test.toml") {
        std::ofstream(path) << text;
    }
    ~temporary_file() { std::filesystem::remove(path); }
    std::string path;
};

TEST(options, names_are_unique) {
    std::set<std::string_view> names;
    for (const auto& o : options()) EXPECT_TRUE(names.insert(o.name).second) << o.name;
}

TEST(options, every_default_is_within_its_range) {
    const auto c = *resolve_config({}, {});
    for (const auto& o : options()) {
        if (o.repeatable() || get_option(c, o).empty()) continue;
        config scratch;
        EXPECT_TRUE(set_option(scratch, o, get_option(c, o)).ok()) << o.name << " = " << get_option(c, o);
        EXPECT_EQ(get_option(scratch, o), get_option(c, o)) << o.name;
    }
}

TEST(options, flag_over_environment_over_file_over_default) {
    const auto* port = find_option("port");
    EXPECT_EQ(resolve_config({}, {})->port, 8080);
    const temporary_file file("port = 1\nqueue_limit = 5\n");
    EXPECT_EQ(resolve_config({}, file.path)->port, 1);
    const variable env("TROUPE_PORT", "2");
    EXPECT_EQ(resolve_config({}, file.path)->port, 2);
    const auto c = *resolve_config({{port, {"3"}}}, file.path);
    EXPECT_EQ(c.port, 3);
    EXPECT_EQ(c.queue_limit, 5);
}

TEST(options, errors_name_option_value_and_range) {
    const auto* port = find_option("port");
    for (const auto* bad : {"65536", "-1", "x", "80x", ""}) {
        const auto r = resolve_config({{port, {bad}}}, {});
        ASSERT_FALSE(r.ok()) << bad;
        EXPECT_EQ(r.error().code, errc::usage);
        EXPECT_EQ(r.error().param, "port");
        EXPECT_NE(r.error().message.find("65535"), std::string::npos) << r.error().message;
    }
    const auto r = resolve_config({{find_option("kv-type"), {"f64"}}}, {});
    ASSERT_FALSE(r.ok());
    EXPECT_NE(r.error().message.find("q8_0"), std::string::npos) << r.error().message;
    EXPECT_FALSE(resolve_config({{find_option("temperature"), {"nan"}}}, {}).ok());
}

TEST(options, toml_refuses_what_it_does_not_know) {
    config c;
    EXPECT_FALSE(apply_toml(c, "no_such_key = 1", "f").ok());
    EXPECT_FALSE(apply_toml(c, "port = \"80\"", "f").ok());
    EXPECT_FALSE(apply_toml(c, "port = [80]", "f").ok());
    EXPECT_FALSE(apply_toml(c, "port = ", "f").ok());
    EXPECT_TRUE(apply_toml(c, "allowed_host = [\"a\", \"b\"]\nmax_body = \"2M\"\ndeterministic = \"off\"\n", "f").ok());
    EXPECT_EQ(c.allowed_hosts, (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(c.max_body, 2u << 20);
    EXPECT_FALSE(c.deterministic);
}

TEST(options, sizes) {
    EXPECT_EQ(*parse_size("17"), 17u);
    EXPECT_EQ(*parse_size("2k"), 2048u);
    EXPECT_EQ(*parse_size("3G"), 3ull << 30);
    for (const auto* bad : {"", "K", "1.5M", "-1", "1T", "99999999999999999999", "18014398509481984K"})
        EXPECT_FALSE(parse_size(bad).ok()) << bad;
}

TEST(options, default_toml_is_what_configs_holds_and_changes_nothing) {
    const auto text = default_toml();
    std::ifstream file(std::string(std::getenv("TROUPE_SOURCE_DIR")) + "/configs/default.toml");
    std::stringstream stored;
    stored << file.rdbuf();
    EXPECT_EQ(stored.str(), text) << "run: troupe serve --print-default-config > configs/default.toml";

    auto c = *resolve_config({}, {});
    const auto before = c;
    ASSERT_TRUE(apply_toml(c, text.substr(0, text.find("data_dir")), "default.toml").ok());
    for (const auto& o : options()) EXPECT_EQ(get_option(c, o), get_option(before, o)) << o.name;
}

}  // namespace
}  // namespace troupe
