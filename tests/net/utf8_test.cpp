#include "core/utf8.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

TEST(utf8, well_formed_text_stays) {
    for (const std::string text :
        {"", "abc", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf", "\xee\x80\x80"})
        EXPECT_EQ(to_valid_utf8(text), text);
}

TEST(utf8, ill_formed_bytes_become_replacement_characters) {
    const std::string r = "\xef\xbf\xbd";
    EXPECT_EQ(to_valid_utf8("a\xff\x62"), "a" + r + "b");
    EXPECT_EQ(to_valid_utf8("\xc3"), r);
    for (const auto* bad : {"\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80", "\x80"})
        EXPECT_EQ(utf8_sequence(bad), 0u) << bad;
}

}  // namespace
}  // namespace troupe
