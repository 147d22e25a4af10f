// What the grammar tests share: goldens, a recognizer for whole texts, small vocabularies.
#pragma once

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include "model/grammar/constraint.hpp"
#include "model/tokenizers/utf8.hpp"

namespace troupe::model::testing {

namespace json = boost::json;

inline json::array golden_cases(const std::string& name) {
    const char* root = std::getenv("TROUPE_SOURCE_DIR");
    std::ifstream in(std::string(root == nullptr ? "." : root) + "/tests/data/grammar/" + name, std::ios::binary);
    EXPECT_TRUE(in.good()) << name;
    std::stringstream text;
    text << in.rdbuf();
    return json::parse(text.str()).as_array();
}

/// How far a grammar follows a text.
struct reading {
    bool parses = false, accepts = false, prefix_ok = false;
    int code_points = 0;  ///< accepted before the first refusal
};
inline reading read_text(const std::string& grammar, std::string_view text) {
    static const auto no_tokens = std::make_shared<const token_trie>(std::vector<std::string_view>{});
    reading r;
    auto compiled = constraint::compile(grammar, no_tokens);
    r.parses = compiled.ok();
    if (!r.parses) return r;
    constraint_cursor at(*compiled);
    r.prefix_ok = true;
    while (!text.empty()) {
        const auto length = utf8::decode(text.data()).length;
        if (!at.accept(text.substr(0, length))) return r.prefix_ok = false, r;
        ++r.code_points;
        text.remove_prefix(length);
    }
    r.accepts = at.accepting().value();
    return r;
}

/// All 256 single bytes, then `more`.
inline std::vector<std::string> byte_vocabulary(const std::vector<std::string>& more) {
    std::vector<std::string> v;
    for (int b = 0; b < 256; ++b) v.emplace_back(1, static_cast<char>(b));
    v.insert(v.end(), more.begin(), more.end());
    return v;
}
inline std::shared_ptr<const token_trie> trie_of(const std::vector<std::string>& v) {
    return std::make_shared<const token_trie>(std::vector<std::string_view>(v.begin(), v.end()));
}

}  // namespace troupe::model::testing
