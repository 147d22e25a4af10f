#include "net/json_in.hpp"

#include <gtest/gtest.h>

#include "net/body.hpp"

namespace troupe::net {
namespace {

json_body body(const std::string& text) { return *json_body::parse(text); }

TEST(json_in, what_is_no_json_object_is_refused) {
    for (const std::string text : {"", " ", "{", "{\"a\":}", "[]", "5", "null", "\"x\"", "{\"a\":NaN}",
             "{\"a\":Infinity}", "{} {}", "{\"a\":\"\xff\"}", "{\"a\":01}", "\xef\xbb\xbf"})
        EXPECT_FALSE(json_body::parse(text).ok()) << text;
}

TEST(json_in, depth_is_bounded) {
    const auto nested = [](int n) { return "{\"a\":" + std::string(n, '[') + std::string(n, ']') + "}"; };
    EXPECT_TRUE(json_body::parse(nested(63)).ok());
    EXPECT_FALSE(json_body::parse(nested(64)).ok());
    EXPECT_FALSE(json_body::parse(nested(1000000)).ok());
    EXPECT_TRUE(json_body::parse("{\"a\":\"" + std::string(500, '[') + "\"}").ok())
        << "brackets in strings do not nest";
}

TEST(json_in, typed_access) {
    const auto b = body(R"({"t":"x","n":null,"b":true,"d":1.5,"i":7,"whole":64.0,"ids":[1,2],"i":8})");
    const auto& o = b.object;
    EXPECT_EQ(**o.text("t"), "x");
    EXPECT_FALSE(o.text("n")->has_value());
    EXPECT_FALSE(o.has("n"));
    EXPECT_FALSE(o.text("missing")->has_value());
    EXPECT_EQ(o.text("i").error().param, "i");
    EXPECT_TRUE(**o.boolean("b"));
    EXPECT_EQ(**o.number("d", 0, 2), 1.5);
    EXPECT_FALSE(o.number("d", 0, 1).ok());
    EXPECT_FALSE(o.number("b", 0, 1).ok());
    EXPECT_EQ(**o.integer("i", 0, 10), 8) << "the last of repeated names counts";
    EXPECT_EQ(**o.integer("whole"), 64);
    EXPECT_FALSE(o.integer("d").ok());
    EXPECT_FALSE(o.integer("t").ok());
    EXPECT_EQ(**o.token_ids("ids", 10), (std::vector<std::int32_t>{1, 2}));
    EXPECT_FALSE(o.token_ids("ids", 2).ok());
    EXPECT_FALSE(o.required_text("missing").ok());
}

}  // namespace
}  // namespace troupe::net
