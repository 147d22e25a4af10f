// UTF-8 in and out: a fast decoder for text known to be well-formed, and the replacement of what is not. Internal to
// tokenizers/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::model::utf8 {

struct code_point {
    char32_t value = 0;
    std::uint32_t length = 0;  ///< bytes
};

/// Decodes at `at`, which must begin a well-formed sequence.
inline code_point decode(const char* at) {
    const auto byte = [&](int i) { return static_cast<std::uint8_t>(at[i]); };
    const char32_t lead = byte(0);
    if (lead < 0x80) return {lead, 1};
    if (lead < 0xe0) return {(lead & 0x1f) << 6 | (byte(1) & 0x3fu), 2};
    if (lead < 0xf0) return {(lead & 0x0f) << 12 | (byte(1) & 0x3fu) << 6 | (byte(2) & 0x3fu), 3};
    return {(lead & 0x07) << 18 | (byte(1) & 0x3fu) << 12 | (byte(2) & 0x3fu) << 6 | (byte(3) & 0x3fu), 4};
}

enum class sequence : std::uint8_t { whole, ill_formed, cut_off };

/// The sequence at the start of `bytes` (not empty). whole: `length` bytes are a code point. ill_formed: `length` bytes
/// are a maximal ill-formed subsequence. cut_off: all of `bytes` may still become a code point.
struct sequence_info {
    sequence kind;
    std::size_t length;
};
sequence_info examine(std::string_view bytes);

inline constexpr std::string_view replacement = "\xef\xbf\xbd";  ///< U+FFFD

bool well_formed(std::string_view bytes);
/// Each maximal ill-formed subsequence becomes U+FFFD.
std::string replace_ill_formed(std::string_view bytes);
/// Unicode NFC of well-formed text.
std::string compose(std::string_view text);

}  // namespace troupe::model::utf8
