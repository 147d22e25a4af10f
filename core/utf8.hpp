// UTF-8 checks for bytes that are about to leave as JSON text.
#pragma once

#include <string>
#include <string_view>

namespace troupe {

/// Length of the well-formed sequence (Unicode table 3-7) at the start of `text`; 0 if it is ill-formed or cut off.
std::size_t utf8_sequence(std::string_view text);

/// `text` with every byte that belongs to no well-formed sequence replaced by U+FFFD.
std::string to_valid_utf8(std::string_view text);

/// Code points that begin in `text`: what clients count offsets by.
std::size_t count_characters(std::string_view text);

}  // namespace troupe
