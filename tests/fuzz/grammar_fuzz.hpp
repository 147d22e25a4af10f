// One fuzz input: GBNF or a JSON schema (what begins with '{' is one). Parsed, built and walked a little; must neither
// crash nor run long.
#pragma once

#include <string>
#include <vector>

#include "model/grammar/constraint.hpp"
#include "model/grammar/json_schema.hpp"

namespace troupe::fuzz {

/// Returns whether the input became a grammar.
inline bool run_grammar(const std::string& input) {
    static const auto trie = std::make_shared<const model::token_trie>(std::vector<std::string_view>{"{", "}", "[", "]",
        "\"", ":", ",", "a", "b", "1", "0", "-", ".", " ", "\n", "\\", "\xc3", "\xa9", "ab", "{\"", "\":"});
    std::string source = input;
    if (!input.empty() && input[0] == '{') {
        const auto made = model::grammar_of_schema(input, "schema");
        if (!made) return false;
        source = *made;
    }
    const auto compiled = model::constraint::compile(source, trie);
    if (!compiled) return false;
    model::constraint_cursor at(*compiled);
    model::token_mask mask;
    for (std::size_t step = 0; step < 24 && at.mask(mask) && mask.any(); ++step) {
        std::size_t id = static_cast<unsigned char>(input[step % input.size()]) % trie->n_tokens();
        while (!mask.test(id)) id = (id + 1) % trie->n_tokens();
        if (!at.accept(static_cast<model::token_id>(id))) break;
    }
    return true;
}

}  // namespace troupe::fuzz
