// The properties of code points that pre-tokenizers ask for. Source: the Unicode character database, through utf8proc.
#pragma once

#include <array>
#include <cstdint>

namespace troupe::model {

/// Bits of a character's class.
enum char_bits : std::uint8_t {
    is_letter = 1,    ///< \p{L}
    is_number = 2,    ///< \p{N}
    is_space = 4,     ///< \s, the White_Space property
    is_punct = 8,     ///< \p{P}
    is_newline = 16,  ///< carriage return or line feed
    is_upper = 32,    ///< \p{Lu} and \p{Lt}; is_letter as well
    is_lower = 64,    ///< \p{Ll}; is_letter as well
    is_mark = 128     ///< \p{M}
};

namespace detail {
extern const std::array<std::uint8_t, 128> ascii_classes;
std::uint8_t classify_beyond_ascii(char32_t value);
}  // namespace detail

inline std::uint8_t classify(char32_t value) {
    return value < 128 ? detail::ascii_classes[value] : detail::classify_beyond_ascii(value);
}

/// The letters deepseek-llm's pre-tokenizer lists by range (cased scripts mostly).
bool is_deepseek_letter(char32_t value);

}  // namespace troupe::model
