// A string of the template language: UTF-8 bytes, and which of them came from the user. Every operation keeps the mark.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "model/templates/text_part.hpp"

namespace troupe::model::jinja {

class text {
 public:
    text() = default;
    text(std::string_view bytes, bool from_user) { append(bytes, from_user); }

    std::string_view view() const { return bytes_; }
    std::size_t size() const { return bytes_.size(); }
    bool empty() const { return bytes_.empty(); }
    /// Number of neighbouring runs with different marks.
    std::size_t n_runs() const { return runs_.size(); }

    void append(std::string_view bytes, bool from_user);
    void append(const text& other) { append(other, 0, other.size()); }
    /// Bytes [from, to) of other.
    void append(const text& other, std::size_t from, std::size_t to);
    bool from_user_at(std::size_t offset) const;
    /// Is any byte the user's?
    bool any_from_user() const;

    std::vector<text_part> parts() const;

 private:
    struct run {
        std::size_t end;  ///< offset past its last byte
        bool from_user;
    };
    std::string bytes_;
    std::vector<run> runs_;  ///< ascending; neighbours differ
};

// -- UTF-8 (well-formed or not: a stray byte counts as one character)

/// Bytes of the character that starts at `offset` (< s.size()); at least 1.
std::size_t char_size(std::string_view s, std::size_t offset);
std::size_t count_chars(std::string_view s);
/// Byte offset of each character, and s.size() at the end.
std::vector<std::size_t> char_offsets(std::string_view s);
/// The code point at `offset`, U+FFFD for a stray byte.
char32_t code_point(std::string_view s, std::size_t offset);
void append_utf8(std::string& out, char32_t c);
/// Python's str.isspace for one character.
bool is_space(char32_t c);
/// First offset at or after `from` that is not white space, and the end of the last character that is not.
std::size_t skip_space(std::string_view s, std::size_t from = 0);
std::size_t trim_end(std::string_view s);
/// Offset of `needle` at or after `from`, npos if absent. Linear in every case.
std::size_t find(std::string_view s, std::string_view needle, std::size_t from = 0);

}  // namespace troupe::model::jinja
