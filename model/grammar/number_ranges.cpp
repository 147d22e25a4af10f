// Digit by digit: below a first digit everything goes, at it the rest decides.
#include "model/grammar/number_ranges.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

namespace troupe::model {
namespace {

std::string any_digits(std::size_t n) { return n == 0 ? "\"\"" : n == 1 ? "[0-9]" : fmt::format("[0-9]{{{}}}", n); }
std::string digit(char lo, char hi) { return lo == hi ? fmt::format("\"{}\"", lo) : fmt::format("[{}-{}]", lo, hi); }
std::string joined(const std::vector<std::string>& ways) {
    return ways.empty() ? std::string() : ways.size() == 1 ? ways[0] : fmt::format("({})", fmt::join(ways, " | "));
}

/// Digit strings of the same length that are >= s (up) or <= s.
std::string beyond(const std::string& s, bool up) {
    const char extreme = up ? '0' : '9';
    if (s.find_first_not_of(extreme) == std::string::npos) return any_digits(s.size());
    const auto rest = beyond(s.substr(1), up);
    std::vector<std::string> ways{fmt::format("\"{}\" {}", s[0], rest)};
    if (up && s[0] < '9') ways.push_back(digit(static_cast<char>(s[0] + 1), '9') + " " + any_digits(s.size() - 1));
    if (!up && s[0] > '0') ways.push_back(digit('0', static_cast<char>(s[0] - 1)) + " " + any_digits(s.size() - 1));
    return joined(ways);
}

/// Digit strings between two of the same length.
std::string between(const std::string& lo, const std::string& hi) {
    if (lo == hi) return lo.empty() ? "\"\"" : "\"" + lo + "\"";
    std::size_t same = 0;
    while (lo[same] == hi[same]) ++same;
    const std::string prefix = same == 0 ? "" : "\"" + lo.substr(0, same) + "\" ";
    const char a = lo[same], b = hi[same];
    const auto rest = lo.size() - same - 1;
    const auto low = lo.substr(same + 1), high = hi.substr(same + 1);
    const bool whole_low = low.find_first_not_of('0') == std::string::npos;
    const bool whole_high = high.find_first_not_of('9') == std::string::npos;
    std::vector<std::string> ways;
    if (!whole_low) ways.push_back(digit(a, a) + " " + beyond(low, true));
    const char from = whole_low ? a : static_cast<char>(a + 1), to = whole_high ? b : static_cast<char>(b - 1);
    if (from <= to) ways.push_back(digit(from, to) + " " + any_digits(rest));
    if (!whole_high) ways.push_back(digit(b, b) + " " + beyond(high, false));
    return prefix + joined(ways);
}

/// Numbers without sign in [lo, hi], no leading zeros; 0 <= lo <= hi.
std::string magnitudes(std::int64_t lo, std::int64_t hi) {
    std::vector<std::string> ways;
    const auto digits = [](std::int64_t x) { return std::to_string(x).size(); };
    for (auto n = digits(lo); n <= digits(hi); ++n) {
        std::int64_t first = n == 1 ? 0 : 1;
        for (std::size_t i = 1; i < n; ++i) first *= 10;
        const auto last = std::stoll(std::string(n, '9'));
        if (lo <= first && hi == largest_integer && n > 1) {
            ways.push_back(fmt::format("[1-9] [0-9]{{{},{}}}", n - 1, digits(hi) - 1));
            break;
        }
        ways.push_back(between(std::to_string(std::max(lo, first)), std::to_string(std::min<std::int64_t>(hi, last))));
    }
    return joined(ways);
}

/// A bound without its sign: whole part and decimals, padded to `decimals` digits.
struct decimal {
    std::int64_t whole = 0;
    std::string fraction;
};

std::size_t decimals_of(long double x) {
    const auto text = fmt::format("{}", static_cast<double>(x));
    const auto point = text.find('.');
    if (text.find('e') != std::string::npos) return 7;
    return point == std::string::npos ? 0 : text.size() - point - 1;
}

decimal split(long double x, std::size_t decimals) {
    const auto text = fmt::format("{:.{}f}", static_cast<double>(x), decimals);
    const auto point = text.find('.');
    return {std::stoll(text), point == std::string::npos ? std::string(decimals, '0') : text.substr(point + 1)};
}

/// Alternatives "d.f" with lo <= d.f <= hi, 0 <= lo.
void decimals_between(number_bound lo, const std::optional<number_bound>& hi, std::vector<std::string>& ways) {
    const auto whole = [](long double x) { return x == std::floor(x); };
    auto first = static_cast<std::int64_t>(std::ceil(lo.value));
    const auto last = hi ? static_cast<std::int64_t>(std::floor(hi->value)) - 1 : largest_integer;
    if (lo.exclusive && whole(lo.value)) {
        if (first <= last) ways.push_back(magnitudes(first, first) + R"( "." [0-9]{0,16} [1-9])");
        ++first;
    }
    if (first <= last) ways.push_back(magnitudes(first, last) + R"( "." [0-9]{1,17})");
    // Beside a bound that is no integer: as many digits as it has, and two more.
    constexpr std::size_t most = 6;
    const auto n = std::max(decimals_of(lo.value), hi ? decimals_of(hi->value) : 0);
    if (n == 0 || n > most) return;
    const auto places = n + 2;
    const std::string zeros(places, '0'), nines(places, '9');
    const auto step = [](std::string digits, bool up) {
        const auto x = std::stoll(digits) + (up ? 1 : -1);
        return fmt::format("{:0{}}", x, digits.size());
    };
    const auto at = [&](std::int64_t d, const std::string& from, const std::string& to) {
        if (from.size() == to.size() && from <= to) ways.push_back(magnitudes(d, d) + " \".\" " + between(from, to));
    };
    const auto a = split(lo.value, places);
    const auto from = lo.exclusive && a.fraction != nines ? step(a.fraction, true) : a.fraction;
    const bool low_open = !whole(lo.value) || lo.exclusive;
    if (!hi || whole(hi->value)) {
        if (low_open && (!hi || a.whole < hi->value) && !whole(lo.value)) at(a.whole, from, nines);
        return;
    }
    const auto b = split(hi->value, places);
    const auto to = hi->exclusive ? step(b.fraction, false) : b.fraction;
    if (a.whole == b.whole) return at(a.whole, from, to);
    if (!whole(lo.value)) at(a.whole, from, nines);
    at(b.whole, zeros, to);
}

}  // namespace

std::string integers_between(std::int64_t lo, std::int64_t hi) {
    std::vector<std::string> ways;
    if (hi >= 0) ways.push_back(magnitudes(std::max<std::int64_t>(lo, 0), hi));
    if (lo < 0) ways.push_back("\"-\" " + magnitudes(std::max<std::int64_t>(-hi, 1), -lo));
    return joined(ways);
}

std::int64_t first_integer(const std::optional<number_bound>& lo) {
    if (!lo || lo->value < -static_cast<long double>(largest_integer)) return -largest_integer;
    if (lo->value > static_cast<long double>(largest_integer)) return largest_integer + 1;
    const auto up = std::ceil(lo->value);
    return static_cast<std::int64_t>(up) + (lo->exclusive && up == lo->value ? 1 : 0);
}

std::int64_t last_integer(const std::optional<number_bound>& hi) {
    if (!hi || hi->value > static_cast<long double>(largest_integer)) return largest_integer;
    if (hi->value < -static_cast<long double>(largest_integer)) return -largest_integer - 1;
    const auto down = std::floor(hi->value);
    return static_cast<std::int64_t>(down) - (hi->exclusive && down == hi->value ? 1 : 0);
}

std::string numbers_between(const std::optional<number_bound>& lo, const std::optional<number_bound>& hi) {
    std::vector<std::string> ways;
    const auto first = first_integer(lo), last = last_integer(hi);
    if (first <= last) ways.push_back(integers_between(first, last));
    constexpr long double far = 1e15L;  // beyond it only integers: doubles have no decimals left
    const auto near = [&](const std::optional<number_bound>& b) { return !b || std::abs(b->value) < far; };
    if (!near(lo) || !near(hi)) return joined(ways);
    const auto flipped = [](const number_bound& b) { return number_bound{-b.value, b.exclusive}; };
    if (!hi || hi->value > 0) decimals_between(lo && lo->value >= 0 ? *lo : number_bound{}, hi, ways);
    if (!lo || lo->value < 0) {
        std::vector<std::string> below;
        decimals_between(hi && hi->value <= 0 ? flipped(*hi) : number_bound{},
            lo ? std::optional(flipped(*lo)) : std::nullopt, below);
        for (const auto& w : below) ways.push_back("\"-\" " + w);
    }
    return joined(ways);
}

std::string multiples_of(std::int64_t m, bool negative, bool zero, rule_book& rules) {
    // One rule for each remainder and number of digits that may still come.
    constexpr int most_digits = 17;
    std::vector<std::string> previous(static_cast<std::size_t>(m));
    const auto step = [&](std::int64_t r, int from, bool may_end, const std::vector<std::string>& to) {
        std::vector<std::string> ways;
        if (may_end && r == 0) ways.emplace_back("\"\"");
        for (int d = from; d <= 9; ++d) {
            const auto next = static_cast<std::size_t>((r * 10 + d) % m);
            if (!to[next].empty()) ways.push_back(fmt::format("\"{}\" {}", d, to[next]));
        }
        return fmt::format("{}", fmt::join(ways, " | "));
    };
    const std::vector<std::string> nothing(static_cast<std::size_t>(m));
    for (int left = 0; left <= most_digits; ++left) {
        std::vector<std::string> now(static_cast<std::size_t>(m));
        for (std::int64_t r = 0; r < m; ++r) {
            const auto body = step(r, 0, true, left == 0 ? nothing : previous);
            if (!body.empty()) now[static_cast<std::size_t>(r)] = rules.define(body);
        }
        previous = std::move(now);
    }
    const auto body = rules.define(step(0, 1, false, previous));
    std::vector<std::string> ways{body};
    if (negative) ways.push_back("\"-\" " + body);
    if (zero) ways.emplace_back("\"0\"");
    return joined(ways);
}

}  // namespace troupe::model
