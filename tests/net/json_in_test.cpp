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

TEST(json_in, integers_beyond_64_bits_are_the_fields_fault) {
    const auto document = json_document::parse(
        R"({"a":123456789012345678901234567890,"s":"99999999999999999999999","b":-9223372036854775808,"u":18446744073709551615,
            "c":-9999999999999999999999,"d":0.1234567890123456789012345})");
    ASSERT_TRUE(document.ok());
    const auto o = *json_object::from(document->root(), "it");
    EXPECT_EQ(o.integer("a").error().param, "a");
    EXPECT_EQ(o.integer("c").error().param, "c");
    EXPECT_EQ(o.integer("u").error().param, "u");
    EXPECT_EQ(*o.integer("b"), std::numeric_limits<std::int64_t>::min());
    EXPECT_EQ(**o.text("s"), "99999999999999999999999");
    EXPECT_NEAR(**o.number("d", 0, 1), 0.1234567890123456789, 1e-12);
    EXPECT_FALSE(json_document::parse(R"({"a":12345678901234567890123456789012x})").ok());
}

}  // namespace
}  // namespace troupe::net
