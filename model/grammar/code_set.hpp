// Sets of Unicode code points as sorted ranges: what one position of a grammar may match. Surrogates are never members.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::model {

struct code_range {
    std::uint32_t lo = 0, hi = 0;  ///< both included
    bool operator==(const code_range&) const = default;
};

/// Ascending, disjoint, not adjacent, without surrogates, up to U+10FFFF. Made by normalized().
using code_set = std::vector<code_range>;

inline constexpr std::uint32_t last_code_point = 0x10FFFF;

/// Any ranges, in any order -> a set.
code_set normalized(std::vector<code_range> ranges);
/// Every code point that is not in `s`.
code_set complement(const code_set& s);
code_set intersection(const code_set& a, const code_set& b);
bool contains(const code_set& s, std::uint32_t code);

/// The code point in UTF-8, appended.
void append_utf8(std::string& out, std::uint32_t code);

/// One way to write some code points of a set in UTF-8: byte i is in [lo[i], hi[i]].
struct utf8_sequence {
    int length = 0;
    std::uint8_t lo[4] = {}, hi[4] = {};
};
/// The UTF-8 encodings of a set, each exactly once.
std::vector<utf8_sequence> utf8_sequences(const code_set& s);

}  // namespace troupe::model
