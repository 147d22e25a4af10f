// Range arithmetic, and the cut of code point ranges into rectangles of UTF-8 bytes.
#include "model/grammar/code_set.hpp"

#include <algorithm>
#include <array>

namespace troupe::model {
namespace {

constexpr std::uint32_t first_surrogate = 0xD800, last_surrogate = 0xDFFF;

int encode(std::uint32_t c, std::array<std::uint8_t, 4>& out) {
    const auto tail = [](std::uint32_t x) { return static_cast<std::uint8_t>(0x80 | (x & 0x3F)); };
    if (c < 0x80) return out = {static_cast<std::uint8_t>(c)}, 1;
    if (c < 0x800) return out = {static_cast<std::uint8_t>(0xC0 | (c >> 6)), tail(c)}, 2;
    if (c < 0x10000) return out = {static_cast<std::uint8_t>(0xE0 | (c >> 12)), tail(c >> 6), tail(c)}, 3;
    return out = {static_cast<std::uint8_t>(0xF0 | (c >> 18)), tail(c >> 12), tail(c >> 6), tail(c)}, 4;
}

/// [lo, hi] of one encoded length: cut until every position of the bytes is free of the others.
void cut(std::uint32_t lo, std::uint32_t hi, std::vector<utf8_sequence>& out) {
    std::array<std::uint8_t, 4> a{}, b{};
    const int n = encode(lo, a);
    for (int low_bytes = n - 1; low_bytes >= 1; --low_bytes) {
        const std::uint32_t mask = (1u << (6 * low_bytes)) - 1;
        if ((lo & ~mask) == (hi & ~mask)) continue;
        if ((lo & mask) != 0) {
            cut(lo, lo | mask, out);
            return cut((lo | mask) + 1, hi, out);
        }
        if ((hi & mask) != mask) {
            cut(lo, (hi & ~mask) - 1, out);
            return cut(hi & ~mask, hi, out);
        }
    }
    encode(hi, b);
    utf8_sequence s;
    s.length = n;
    for (int i = 0; i < n; ++i) {
        s.lo[i] = a[static_cast<std::size_t>(i)];
        s.hi[i] = b[static_cast<std::size_t>(i)];
    }
    out.push_back(s);
}

}  // namespace

code_set normalized(std::vector<code_range> ranges) {
    std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.lo < b.lo; });
    code_set joined;
    const auto add = [&](std::uint32_t lo, std::uint32_t hi) {
        if (lo > hi) return;
        if (!joined.empty() && lo <= joined.back().hi + 1)
            joined.back().hi = std::max(joined.back().hi, hi);
        else
            joined.push_back({lo, hi});
    };
    for (const auto& r : ranges) {
        const auto hi = std::min(r.hi, last_code_point);
        add(r.lo, std::min(hi, first_surrogate - 1));
        add(std::max(r.lo, last_surrogate + 1), hi);
    }
    return joined;
}

code_set complement(const code_set& s) {
    std::vector<code_range> out;
    std::uint32_t next = 0;
    for (const auto& r : s) {
        if (r.lo > next) out.push_back({next, r.lo - 1});
        next = r.hi + 1;
    }
    if (next <= last_code_point) out.push_back({next, last_code_point});
    return normalized(std::move(out));
}

code_set intersection(const code_set& a, const code_set& b) {
    std::vector<code_range> out;
    for (const auto& x : a)
        for (const auto& y : b)
            if (std::max(x.lo, y.lo) <= std::min(x.hi, y.hi))
                out.push_back({std::max(x.lo, y.lo), std::min(x.hi, y.hi)});
    return normalized(std::move(out));
}

bool contains(const code_set& s, std::uint32_t code) {
    return std::any_of(s.begin(), s.end(), [&](const auto& r) { return r.lo <= code && code <= r.hi; });
}

void append_utf8(std::string& out, std::uint32_t code) {
    std::array<std::uint8_t, 4> bytes{};
    const int n = encode(code, bytes);
    for (int i = 0; i < n; ++i) out += static_cast<char>(bytes[static_cast<std::size_t>(i)]);
}

std::vector<utf8_sequence> utf8_sequences(const code_set& s) {
    constexpr std::array<std::uint32_t, 4> last_of_length{0x7F, 0x7FF, 0xFFFF, last_code_point};
    std::vector<utf8_sequence> out;
    for (auto r : s)
        for (const auto last : last_of_length) {
            if (r.lo > last) continue;
            cut(r.lo, std::min(r.hi, last), out);
            if (r.hi <= last) break;
            r.lo = last + 1;
        }
    return out;
}

}  // namespace troupe::model
