// Template source -> tokens, with Jinja's white-space rules (trim_blocks, lstrip_blocks, -/+ signs, raw, comments)
// applied.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::model::jinja {

enum class token_kind : std::uint8_t {
    data,
    block_begin,
    block_end,
    print_begin,
    print_end,
    name,
    string,
    integer,
    real,
    op,
    end
};

struct token {
    token_kind kind = token_kind::end;
    std::string text;  ///< data and strings: final bytes; numbers without underscores; operators and names as written
    int line = 1;
};

/// Throws failure (with line) on text that is no template.
std::vector<token> tokenize(std::string_view source);

}  // namespace troupe::model::jinja
