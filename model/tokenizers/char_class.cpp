// ASCII by table; the rest by utf8proc's category.
#include "model/tokenizers/char_class.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

namespace troupe::model {

namespace {

struct code_range {
    char32_t first;
    char32_t last;
};

// Source: the character class in DeepSeek LLM's tokenizer.json. Ascending.
constexpr code_range deepseek_letters[] = {{0x41, 0x5a}, {0x61, 0x7a}, {0xb5, 0xb5}, {0xc0, 0xd6}, {0xd8, 0xf6},
    {0xf8, 0x1ba}, {0x1bc, 0x1bf}, {0x1c4, 0x293}, {0x295, 0x2af}, {0x370, 0x373}, {0x376, 0x376}, {0x377, 0x377},
    {0x37b, 0x37d}, {0x37f, 0x37f}, {0x386, 0x386}, {0x388, 0x38a}, {0x38c, 0x38c}, {0x38e, 0x3a1}, {0x3a3, 0x3f5},
    {0x3f7, 0x481}, {0x48a, 0x52f}, {0x531, 0x556}, {0x10a0, 0x10c5}, {0x13a0, 0x13f5}, {0x13f8, 0x13fd},
    {0x1c90, 0x1cba}, {0x1cbd, 0x1cbf}, {0x1d00, 0x1d2b}, {0x1d6b, 0x1d77}, {0x1d79, 0x1d9a}, {0x1e00, 0x1f15},
    {0x1f18, 0x1f1d}, {0x1f20, 0x1f45}, {0x1f48, 0x1f4d}, {0x1f50, 0x1f57}, {0x1f59, 0x1f59}, {0x1f5b, 0x1f5b},
    {0x1f5d, 0x1f5d}, {0x1f5f, 0x1f7d}, {0x1f80, 0x1fb4}, {0x1fb6, 0x1fbc}, {0x1fbe, 0x1fbe}, {0x1fc2, 0x1fc4},
    {0x1fc6, 0x1fcc}, {0x1fd0, 0x1fd3}, {0x1fd6, 0x1fdb}, {0x1fe0, 0x1fec}, {0x1ff2, 0x1ff4}, {0x1ff6, 0x1ffc},
    {0x2102, 0x2102}, {0x2107, 0x2107}, {0x210a, 0x2113}, {0x2115, 0x2115}, {0x2119, 0x211d}, {0x2124, 0x2124},
    {0x2126, 0x2126}, {0x2128, 0x2128}, {0x212a, 0x212d}, {0x212f, 0x2134}, {0x2139, 0x2139}, {0x213c, 0x213f},
    {0x2145, 0x2149}, {0x214e, 0x214e}, {0x2183, 0x2183}, {0x2184, 0x2184}, {0x2c00, 0x2c7b}, {0x2c7e, 0x2ce4},
    {0x2ceb, 0x2cee}, {0x2cf2, 0x2cf2}, {0x2cf3, 0x2cf3}, {0xa640, 0xa66d}, {0xa680, 0xa69b}, {0xa722, 0xa76f},
    {0xa771, 0xa787}, {0xa78b, 0xa78e}, {0xab70, 0xabbf}, {0xfb00, 0xfb06}, {0xfb13, 0xfb17}, {0xff21, 0xff3a},
    {0xff41, 0xff5a}, {0x10400, 0x1044f}, {0x104b0, 0x104d3}, {0x104d8, 0x104fb}, {0x10c80, 0x10cb2},
    {0x10cc0, 0x10cf2}, {0x118a0, 0x118df}, {0x1e900, 0x1e943}};

bool is_white_space(char32_t value) {
    return value == 0x85 || value == 0xa0 || value == 0x1680 || (value >= 0x2000 && value <= 0x200a) ||
           value == 0x2028 || value == 0x2029 || value == 0x202f || value == 0x205f || value == 0x3000;
}

constexpr std::array<std::uint8_t, 128> make_ascii_classes() {
    std::array<std::uint8_t, 128> classes{};
    for (char32_t c = 0; c < 128; ++c) {
        const bool lower = c >= 'a' && c <= 'z', upper = c >= 'A' && c <= 'Z', letter = lower || upper;
        const bool number = c >= '0' && c <= '9';
        const bool space = c == ' ' || (c >= 9 && c <= 13);
        // Printable ASCII that is not \p{P} belongs to \p{S}: $ + < = > ^ ` | ~
        const bool symbol =
            c == '$' || c == '+' || (c >= '<' && c <= '>') || c == '^' || c == '`' || c == '|' || c == '~';
        const bool punct = c > ' ' && c < 127 && !letter && !number && !symbol;
        const bool newline = c == '\r' || c == '\n';
        classes[c] = static_cast<std::uint8_t>(
            (letter ? is_letter : 0) | (number ? is_number : 0) | (space ? is_space : 0) | (punct ? is_punct : 0) |
            (newline ? is_newline : 0) | (upper ? is_upper : 0) | (lower ? is_lower : 0));
    }
    return classes;
}

}  // namespace

constexpr std::array<std::uint8_t, 128> detail::ascii_classes = make_ascii_classes();

std::uint8_t detail::classify_beyond_ascii(char32_t value) {
    if (is_white_space(value)) return is_space;
    switch (utf8proc_category(static_cast<utf8proc_int32_t>(value))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT:
        return is_letter | is_upper;
    case UTF8PROC_CATEGORY_LL:
        return is_letter | is_lower;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return is_letter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
        return is_mark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return is_number;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
        return is_punct;
    default:
        return 0;
    }
}

bool is_deepseek_letter(char32_t value) {
    if (value < 128) return (classify(value) & is_letter) != 0;
    const auto* after = std::upper_bound(std::begin(deepseek_letters), std::end(deepseek_letters), value,
        [](char32_t v, const code_range& range) { return v < range.first; });
    return after != std::begin(deepseek_letters) && value <= std::prev(after)->last;
}

}  // namespace troupe::model
