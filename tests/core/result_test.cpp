// result<T>: values and errors travel, misuse ends the process.
#include "core/result.hpp"

#include <memory>

#include <gtest/gtest.h>

namespace troupe {
namespace {

result<int> half(int x) {
    if (x % 2) return fail(errc::invalid_request, "odd", "x");
    return x / 2;
}

result<int> quarter(int x) {
    TROUPE_TRY(const int h, half(x));
    return half(h);
}

result<void> check_even(int x) {
    TROUPE_TRY([[maybe_unused]] const int h, half(x));
    return {};
}

result<void> check_both(int x, int y) {
    TROUPE_TRYV(check_even(x));
    TROUPE_TRYV(check_even(y));
    return {};
}

TEST(result, carries_value_or_error) {
    EXPECT_EQ(*quarter(8), 2);
    const auto r = quarter(6);
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().code, errc::invalid_request);
    EXPECT_EQ(r.error().param, "x");
    EXPECT_TRUE(check_both(2, 4).ok());
    EXPECT_FALSE(check_both(2, 3).ok());
}

TEST(result, moves_what_cannot_be_copied) {
    result<std::unique_ptr<int>> r = std::make_unique<int>(7);
    const std::unique_ptr<int> taken = *std::move(r);
    EXPECT_EQ(*taken, 7);
}

TEST(result_death, value_of_an_error_is_a_bug) {
    EXPECT_DEATH((void)*half(3), "CHECK failed");
    EXPECT_DEATH((void)half(2).error(), "CHECK failed");
}

}  // namespace
}  // namespace troupe
