// Writing GBNF: quoted literals and classes, and the book of rules a generated grammar grows in.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/grammar/code_set.hpp"

namespace troupe::model {

/// "..." matching exactly these bytes (UTF-8).
std::string gbnf_literal(std::string_view text);
/// [...] matching one code point of the set, which must not be empty.
std::string gbnf_class(const code_set& set);
/// The characters of `set` as they may stand in a JSON string: raw, or escaped where JSON wants it.
std::string json_characters(const code_set& set);
/// JSON text of a string, quotes included.
std::string json_quoted(std::string_view text);

/// Rules of one generated grammar; equal bodies share one rule.
class rule_book {
 public:
    /// Name of a rule with this body.
    std::string define(const std::string& body);
    /// A name whose body comes later, through set(); for recursion.
    std::string reserve();
    void set(const std::string& name, std::string body);
    /// Names of rules every JSON grammar needs, made when first asked for: ws, char, string, integer, number, value,
    /// object, array, never (matches nothing).
    const std::string& common(const std::string& name);

    std::size_t bytes() const { return bytes_; }
    /// The grammar with this body of root.
    std::string text(const std::string& root) const;

 private:
    std::vector<std::pair<std::string, std::string>> rules_;
    std::unordered_map<std::string, std::string> by_body_, common_;
    std::unordered_map<std::string, std::size_t> index_;
    std::size_t bytes_ = 0;
};

}  // namespace troupe::model
