// Everything that is not plain ASCII is escaped: a generated grammar can be read and pasted anywhere.
#include "model/grammar/gbnf_text.hpp"

#include <array>

#include <fmt/format.h>

#include "core/check.hpp"
#include "model/tokenizers/utf8.hpp"

namespace troupe::model {
namespace {

std::string escaped(std::uint32_t c) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (plain) return std::string(1, static_cast<char>(c));
    return c <= 0xFF     ? fmt::format("\\x{:02X}", c)
           : c <= 0xFFFF ? fmt::format("\\u{:04X}", c)
                         : fmt::format("\\U{:08X}", c);
}

/// Bodies of the rules every JSON grammar needs. White space is bounded: a model must not be able to go on with it for
/// ever. So are the digits of numbers, which thereby fit into 64 bits and doubles.
const std::unordered_map<std::string, std::string> common_bodies{
    {"ws", R"((" " | "\n" [ \t]{0,20})?)"},
    {"char", R"([^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" ([0-9a-cA-CefEF] [0-9a-fA-F]{3} | [dD] [0-7] [0-9a-fA-F]{2})"
             R"( | [dD] [89abAB] [0-9a-fA-F]{2} "\\u" [dD] [c-fC-F] [0-9a-fA-F]{2})))"},
    {"string", R"("\"" char* "\"")"},
    {"integer", R"("-"? ("0" | [1-9] [0-9]{0,17}))"},
    {"number", R"("-"? ("0" | [1-9] [0-9]{0,17}) ("." [0-9]{1,17})? ([eE] [-+]? [0-9]{1,2})?)"},
    {"value", R"(object | array | string | number | "true" | "false" | "null")"},
    {"object", R"("{" ws (string ws ":" ws value (ws "," ws string ws ":" ws value)* ws)? "}")"},
    {"array", R"("[" ws (value (ws "," ws value)* ws)? "]")"},
    {"never", R"("x" never)"},
};
const std::unordered_map<std::string, std::vector<std::string>> common_uses{{"string", {"char"}},
    {"value", {"object", "array", "string", "number"}}, {"object", {"ws", "string", "value"}},
    {"array", {"ws", "value"}}};

}  // namespace

std::string gbnf_literal(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\')
            out += '\\', out += c;
        else if (static_cast<unsigned char>(c) < 0x20)
            out += escaped(static_cast<unsigned char>(c));
        else
            out += c;
    }
    return out + '"';
}

std::string gbnf_class(const code_set& set) {
    CHECK(!set.empty());
    std::string out = "[";
    for (const auto& r : set) {
        out += escaped(r.lo);
        if (r.hi != r.lo) out += "-" + escaped(r.hi);
    }
    return out + "]";
}

std::string json_characters(const code_set& set) {
    static const code_set raw = complement(normalized({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}));
    static constexpr std::array<std::pair<char, char>, 7> short_forms{
        {{'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}}};
    std::vector<std::string> ways;
    if (const auto plain = intersection(set, raw); !plain.empty()) ways.push_back(gbnf_class(plain));
    std::string shorts;
    for (const auto& [code, letter] : short_forms)
        if (contains(set, static_cast<unsigned char>(code))) shorts += escaped(static_cast<unsigned char>(letter));
    if (!shorts.empty()) ways.push_back("\"\\\\\" [" + shorts + "]");
    for (std::uint32_t c = 0; c < 0x20; ++c)
        if (contains(set, c)) ways.push_back(gbnf_literal(fmt::format("\\u{:04x}", c)));
    return ways.size() == 1 ? ways[0] : fmt::format("({})", fmt::join(ways, " | "));
}

std::string json_quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        const auto b = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
            out += '\\', out += c;
        else if (c == '\n')
            out += "\\n";
        else if (c == '\t')
            out += "\\t";
        else if (b < 0x20)
            out += fmt::format("\\u{:04x}", b);
        else
            out += c;
    }
    return out + '"';
}

std::string rule_book::define(const std::string& body) {
    if (const auto known = by_body_.find(body); known != by_body_.end()) return known->second;
    auto name = reserve();
    set(name, body);
    by_body_.emplace(body, name);
    return name;
}

std::string rule_book::reserve() {
    auto name = fmt::format("r{}", rules_.size());
    index_.emplace(name, rules_.size());
    rules_.emplace_back(name, std::string());
    return name;
}

void rule_book::set(const std::string& name, std::string body) {
    bytes_ += name.size() + body.size() + 8;
    rules_[index_.at(name)].second = std::move(body);
}

const std::string& rule_book::common(const std::string& name) {
    const auto [it, fresh] = common_.emplace(name, name);
    const std::string& out = it->second;
    if (!fresh) return out;
    rules_.emplace_back(name, common_bodies.at(name));
    if (const auto uses = common_uses.find(name); uses != common_uses.end())
        for (const auto& u : uses->second) common(u);
    return out;
}

std::string rule_book::text(const std::string& root) const {
    std::string out = "root ::= " + root + "\n";
    for (const auto& [name, body] : rules_)
        if (!body.empty()) out += name + " ::= " + body + "\n";
    return out;
}

}  // namespace troupe::model
