// Numbers between bounds as GBNF: which digit strings are at least this and at most that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/grammar/gbnf_text.hpp"

namespace troupe::model {

/// Integers of generated text have at most 18 digits.
inline constexpr std::int64_t largest_integer = 999'999'999'999'999'999;

/// JSON integers in [lo, hi], both within +-largest_integer; lo <= hi.
std::string integers_between(std::int64_t lo, std::int64_t hi);

struct number_bound {
    long double value = 0;
    bool exclusive = false;
};
/// JSON numbers (integers among them, without exponents) within bounds of which at least one is given. Empty: none that
/// can be written with few decimals. Where a bound is not an integer, numbers beside it have two decimals more than the
/// bound.
std::string numbers_between(const std::optional<number_bound>& lo, const std::optional<number_bound>& hi);

/// Smallest integer allowed by a lower bound, largest by an upper one, clamped to +-largest_integer.
std::int64_t first_integer(const std::optional<number_bound>& lo);
std::int64_t last_integer(const std::optional<number_bound>& hi);

/// JSON integers divisible by m (1..100). sign: -1 and 1 both signs and zero... only those with lo <= 0 resp. lo = 1.
std::string multiples_of(std::int64_t m, bool negative, bool zero, rule_book& rules);

}  // namespace troupe::model
