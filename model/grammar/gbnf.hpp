// GBNF, the grammar notation of llama.cpp: text -> rules, with every mistake refused before anything is generated.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "model/grammar/code_set.hpp"

namespace troupe::model {

/// A parsed grammar: expressions in one arena, named by index.
struct grammar {
    enum class kind : std::uint8_t { sequence, choice, set, literal, rule, repeat };
    struct expression {
        kind what{};
        std::vector<std::uint32_t> parts;  ///< sequence (none: the empty text), choice, repeat (one)
        code_set set;
        std::string text;               ///< literal: UTF-8
        std::uint32_t rule = 0;         ///< rule: index of the rule referred to
        std::int32_t min = 0, max = 0;  ///< repeat; max -1: without end
        bool nullable = false;          ///< matches the empty text
        bool productive = false;        ///< matches some text at all
    };
    struct named_rule {
        std::string name;
        std::uint32_t body = 0;
        bool defined = false;
    };
    std::vector<expression> expressions;
    std::vector<named_rule> rules;
    std::uint32_t root = 0;  ///< index of the rule "root"
};

/// invalid_request (param "grammar") with the line for what does not parse: undefined or doubly defined rules, no
/// root, left recursion (hidden behind rules that may be empty, too), unterminated or empty parts, ranges the wrong way
/// round, a root that no finite text matches; and for what is beyond limits::max_grammar_*.
result<grammar> parse_gbnf(std::string_view text);

}  // namespace troupe::model
