#include "actors/executor/arguments.hpp"

#include <gtest/gtest.h>

#include "actors/executor/parent_line.hpp"

namespace troupe::actors {
namespace {

TEST(executor_arguments, survive_the_command_line) {
    executor_arguments a{.model = "-a \"strange\" path",
        .kernels = "ref",
        .threads = 3,
        .ctx = 77,
        .kv_type = "q8_0",
        .kv_memory = 1ull << 40,
        .max_rows = 9,
        .nice = -5,
        .log_level = "off",
        .socket_fd = 3,
        .page_fd = 4,
        .parent = 4242};
    const auto words = to_words(a);
    const auto back = parse_words(words);
    ASSERT_TRUE(back);
    EXPECT_EQ(to_words(*back), words);
    EXPECT_EQ(back->model, a.model);
    EXPECT_EQ(back->kv_memory, a.kv_memory);
    EXPECT_EQ(back->nice, -5);
}

TEST(executor_arguments, refuse_what_they_do_not_know) {
    const auto refused = [](std::vector<std::string> words) {
        const auto r = parse_words(words);
        return r ? std::string("accepted") : r.error().param;
    };
    EXPECT_EQ(refused({}), "--model");
    EXPECT_EQ(refused({"--model"}), "--model");
    EXPECT_EQ(refused({"--model", "m", "--colour", "red"}), "--colour");
    EXPECT_EQ(refused({"--model", "m", "--threads", "two"}), "--threads");
    EXPECT_EQ(refused({"--model", "m", "--threads", "2x"}), "--threads");
    EXPECT_EQ(refused({"--model", "m", "--kv-memory", "-1"}), "--kv-memory");
    EXPECT_EQ(refused({"--model", "m"}), "accepted");
}

TEST(parent_line, carries_every_event) {
    const auto through = [](const line_message& m) { return decode_line(encode_line(m)); };
    const auto start = through({.event = "start", .cookie = "abc\"\n", .epoch = 7});
    ASSERT_TRUE(start);
    EXPECT_EQ(start->cookie, "abc\"\n");
    EXPECT_EQ(start->epoch, 7u);
    const auto ready = through({.event = "ready", .port = 65535, .pid = 12, .build = "b", .numerics_id = "avx2/1"});
    ASSERT_TRUE(ready);
    EXPECT_EQ(ready->port, 65535);
    EXPECT_EQ(ready->numerics_id, "avx2/1");
    const auto failed = through({.event = "failed", .err = fail(errc::out_of_memory, "12 MiB short", "kv-memory")});
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->err, fail(errc::out_of_memory, "12 MiB short", "kv-memory"));
    EXPECT_FALSE(decode_line("nonsense"));
    EXPECT_FALSE(decode_line("{}"));
}

TEST(parent_line, reader_joins_pieces_and_bounds_a_line) {
    line_reader reader;
    std::vector<std::string> lines;
    const auto keep = [&](std::string_view l) { lines.emplace_back(l); };
    EXPECT_TRUE(reader.feed("on", keep));
    EXPECT_TRUE(reader.feed("e\ntwo\nth", keep));
    EXPECT_TRUE(reader.feed("ree\n", keep));
    EXPECT_EQ(lines, (std::vector<std::string>{"one", "two", "three"}));
    EXPECT_FALSE(reader.feed(std::string(70000, 'x'), keep));
    EXPECT_FALSE(reader.feed("\n", keep));
    EXPECT_EQ(lines.size(), 3u);
}

}  // namespace
}  // namespace troupe::actors
