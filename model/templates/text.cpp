// Marked text and the UTF-8 helpers of the template language.
#include "model/templates/text.hpp"

#include <algorithm>
#include <cstring>

#include <utf8proc.h>

namespace troupe::model::jinja {

void text::append(std::string_view bytes, bool from_user) {
    if (bytes.empty()) return;
    bytes_.append(bytes);
    if (runs_.empty() || runs_.back().from_user != from_user) {
        runs_.push_back({bytes_.size(), from_user});
    } else {
        runs_.back().end = bytes_.size();
    }
}

void text::append(const text& other, std::size_t from, std::size_t to) {
    auto r = std::upper_bound(
        other.runs_.begin(), other.runs_.end(), from, [](std::size_t at, const run& x) { return at < x.end; });
    const std::string_view bytes = other.bytes_;
    for (; from < to && r != other.runs_.end(); ++r) {
        const std::size_t end = std::min(to, r->end);
        append(bytes.substr(from, end - from), r->from_user);
        from = end;
    }
}

bool text::from_user_at(std::size_t offset) const {
    const auto r =
        std::upper_bound(runs_.begin(), runs_.end(), offset, [](std::size_t at, const run& x) { return at < x.end; });
    return r != runs_.end() && r->from_user;
}

bool text::any_from_user() const {
    return std::any_of(runs_.begin(), runs_.end(), [](const run& r) { return r.from_user; });
}

std::vector<text_part> text::parts() const {
    std::vector<text_part> out;
    out.reserve(runs_.size());
    std::size_t from = 0;
    for (const run& r : runs_) {
        out.push_back({bytes_.substr(from, r.end - from), r.from_user});
        from = r.end;
    }
    return out;
}

namespace {

/// Decodes one character; *c is negative for a stray byte, which has size 1.
std::size_t decode(std::string_view s, std::size_t offset, utf8proc_int32_t* c) {
    const auto lead = static_cast<unsigned char>(s[offset]);
    if (lead < 0x80) {
        *c = lead;
        return 1;
    }
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(s.data()) + offset;
    const auto size = utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(s.size() - offset), c);
    if (size > 0) return static_cast<std::size_t>(size);
    *c = -1;
    return 1;
}

}  // namespace

std::size_t char_size(std::string_view s, std::size_t offset) {
    utf8proc_int32_t c = 0;
    return decode(s, offset, &c);
}

char32_t code_point(std::string_view s, std::size_t offset) {
    utf8proc_int32_t c = 0;
    decode(s, offset, &c);
    return c < 0 ? U'\uFFFD' : static_cast<char32_t>(c);
}

std::size_t count_chars(std::string_view s) {
    std::size_t n = 0;
    for (std::size_t i = 0; i < s.size(); i += char_size(s, i)) ++n;
    return n;
}

std::vector<std::size_t> char_offsets(std::string_view s) {
    std::vector<std::size_t> offsets;
    offsets.reserve(s.size() + 1);
    for (std::size_t i = 0; i < s.size(); i += char_size(s, i)) offsets.push_back(i);
    offsets.push_back(s.size());
    return offsets;
}

void append_utf8(std::string& out, char32_t c) {
    utf8proc_uint8_t bytes[4];
    const auto n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes);
    out.append(reinterpret_cast<const char*>(bytes), n > 0 ? static_cast<std::size_t>(n) : 0);
}

bool is_space(char32_t c) {
    if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

std::size_t skip_space(std::string_view s, std::size_t from) {
    while (from < s.size() && is_space(code_point(s, from))) from += char_size(s, from);
    return from;
}

std::size_t trim_end(std::string_view s) {
    std::size_t end = s.size();
    while (end > 0) {
        std::size_t start = end - 1;
        while (start > 0 && end - start < 4 && (static_cast<unsigned char>(s[start]) & 0xC0) == 0x80) --start;
        if (start + char_size(s, start) != end || !is_space(code_point(s, start))) break;
        end = start;
    }
    return end;
}

std::size_t find(std::string_view s, std::string_view needle, std::size_t from) {
    if (from > s.size()) return std::string_view::npos;
    if (needle.empty()) return from;
    const void* at = memmem(s.data() + from, s.size() - from, needle.data(), needle.size());
    return at == nullptr ? std::string_view::npos : static_cast<std::size_t>(static_cast<const char*>(at) - s.data());
}

}  // namespace troupe::model::jinja
