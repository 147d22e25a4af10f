// Source: the Unicode standard, table 3-7 (well-formed byte sequences) and "U+FFFD substitution of maximal subparts".
#include "model/tokenizers/utf8.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/check.hpp"
#include "model/tokenizers/tokenizer.hpp"

namespace troupe::model {

namespace utf8 {

namespace {

/// What may follow a lead byte: how many bytes in all, and the range of the second one (the others are 80..BF).
struct lead_info {
    std::size_t length = 0;  ///< 0: no lead byte
    std::uint8_t second_min = 0x80;
    std::uint8_t second_max = 0xbf;
};

constexpr lead_info lead_of(std::uint8_t byte) {
    if (byte >= 0xc2 && byte <= 0xdf) return {2};
    if (byte == 0xe0) return {3, 0xa0, 0xbf};
    if (byte == 0xed) return {3, 0x80, 0x9f};
    if (byte >= 0xe1 && byte <= 0xef) return {3};
    if (byte == 0xf0) return {4, 0x90, 0xbf};
    if (byte >= 0xf1 && byte <= 0xf3) return {4};
    if (byte == 0xf4) return {4, 0x80, 0x8f};
    return {};
}

/// Bytes of plain ASCII at the start.
std::size_t ascii_run(std::string_view bytes) {
    std::size_t at = 0;
    for (std::uint64_t word = 0; at + 8 <= bytes.size(); at += 8) {
        std::memcpy(&word, bytes.data() + at, 8);
        if (word & 0x8080808080808080u) break;
    }
    while (at < bytes.size() && static_cast<std::uint8_t>(bytes[at]) < 0x80) ++at;
    return at;
}

/// Bytes at the start that are well-formed and whole.
std::size_t good_run(std::string_view bytes) {
    std::size_t at = 0;
    while (at < bytes.size()) {
        at += ascii_run(bytes.substr(at));
        if (at == bytes.size()) break;
        const auto next = examine(bytes.substr(at));
        if (next.kind != sequence::whole) break;
        at += next.length;
    }
    return at;
}

/// Appends what is decided of `bytes`; returns how many bytes it took. The rest, if any, is one cut-off sequence.
std::size_t append_decided(std::string& out, std::string_view bytes) {
    std::size_t at = 0;
    while (at < bytes.size()) {
        const auto good = good_run(bytes.substr(at));
        out += bytes.substr(at, good);
        at += good;
        if (at == bytes.size()) break;
        const auto bad = examine(bytes.substr(at));
        if (bad.kind == sequence::cut_off) break;
        out += replacement;
        at += bad.length;
    }
    return at;
}

}  // namespace

sequence_info examine(std::string_view bytes) {
    const auto first = static_cast<std::uint8_t>(bytes[0]);
    if (first < 0x80) return {sequence::whole, 1};
    const lead_info lead = lead_of(first);
    if (lead.length == 0) return {sequence::ill_formed, 1};
    for (std::size_t i = 1; i < lead.length; ++i) {
        if (i == bytes.size()) return {sequence::cut_off, i};
        const auto byte = static_cast<std::uint8_t>(bytes[i]);
        const auto low = i == 1 ? lead.second_min : 0x80;
        const auto high = i == 1 ? lead.second_max : 0xbf;
        if (byte < low || byte > high) return {sequence::ill_formed, i};
    }
    return {sequence::whole, lead.length};
}

bool well_formed(std::string_view bytes) { return good_run(bytes) == bytes.size(); }

std::string replace_ill_formed(std::string_view bytes) {
    std::string out;
    out.reserve(bytes.size());
    if (append_decided(out, bytes) < bytes.size()) out += replacement;
    return out;
}

std::string compose(std::string_view text) {
    const bool ascii =
        std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    if (ascii) return std::string(text);
    utf8proc_uint8_t* composed = nullptr;
    const auto length =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
            &composed, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    CHECK(length >= 0, "well-formed text has a composed form");
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(composed, &std::free);
    return {reinterpret_cast<const char*>(composed), static_cast<std::size_t>(length)};
}

}  // namespace utf8

std::string utf8_stream::push(std::string_view bytes) {
    std::string out;
    if (held_.empty()) {
        held_ = bytes.substr(utf8::append_decided(out, bytes));
        return out;
    }
    held_ += bytes;
    held_.erase(0, utf8::append_decided(out, held_));
    return out;
}

std::string utf8_stream::flush() {
    const bool held = !held_.empty();
    held_.clear();
    return std::string(held ? utf8::replacement : "");
}

}  // namespace troupe::model
