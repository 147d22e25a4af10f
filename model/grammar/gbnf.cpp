// Recursive descent over the notation.
#include "model/grammar/gbnf.hpp"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "core/limits.hpp"
#include "model/grammar/grammar_checks.hpp"
#include "model/tokenizers/utf8.hpp"

namespace troupe::model {
namespace {

using kind = grammar::kind;

bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

class parser {
 public:
    explicit parser(std::string_view text) : text_(text) {}

    result<grammar> run() {
        if (text_.size() > limits::max_grammar_bytes)
            return wrong(fmt::format("the grammar is longer than {} bytes", limits::max_grammar_bytes));
        if (!utf8::well_formed(text_)) return wrong("the grammar is not UTF-8");
        skip_blank(true);
        while (at_ < text_.size()) {
            TROUPE_TRYV(rule());
            skip_blank(true);
        }
        return std::move(out_);
    }

 private:
    error wrong(std::string_view what) const {
        const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
        return fail(errc::invalid_request, fmt::format("grammar, line {}: {}", line, what), "grammar");
    }
    bool more() const { return at_ < text_.size(); }
    char peek() const { return more() ? text_[at_] : '\0'; }
    bool take(std::string_view s) {
        if (text_.substr(at_, s.size()) != s) return false;
        at_ += s.size();
        return true;
    }
    void skip_blank(bool lines) {
        for (; more(); ++at_) {
            const char c = peek();
            if (c == '#') {
                while (more() && peek() != '\n' && peek() != '\r') ++at_;
                if (!more()) return;
                --at_;
            } else if (c != ' ' && c != '\t' && !(lines && (c == '\n' || c == '\r'))) {
                return;
            }
        }
    }

    result<std::uint32_t> add(grammar::expression e) {
        if (out_.expressions.size() >= limits::max_grammar_expressions)
            return wrong(fmt::format("more than {} expressions", limits::max_grammar_expressions));
        out_.expressions.push_back(std::move(e));
        return static_cast<std::uint32_t>(out_.expressions.size() - 1);
    }

    std::uint32_t rule_index(std::string_view name) {
        const auto [it, fresh] = index_.emplace(name, static_cast<std::uint32_t>(out_.rules.size()));
        if (fresh) out_.rules.push_back({std::string(name)});
        return it->second;
    }
    std::string_view word() {
        const auto begin = at_;
        while (is_word(peek())) ++at_;
        return text_.substr(begin, at_ - begin);
    }

    result<void> rule() {
        const auto name = word();
        if (name.empty()) return wrong("a rule's name is expected");
        skip_blank(false);
        if (!take("::=")) return wrong(fmt::format("'::=' is expected after '{}'", name));
        skip_blank(true);
        const auto index = rule_index(name);
        if (out_.rules[index].defined) return wrong(fmt::format("rule '{}' is defined twice", name));
        TROUPE_TRY(const auto body, alternatives(false));
        out_.rules[index].body = body;
        out_.rules[index].defined = true;
        if (more() && peek() != '\n' && peek() != '\r') return wrong("the end of the line is expected");
        return {};
    }

    result<std::uint32_t> alternatives(bool in_group) {
        if (++depth_ > limits::max_grammar_nesting)
            return wrong(fmt::format("groups are nested deeper than {}", limits::max_grammar_nesting));
        grammar::expression choice{.what = kind::choice};
        do {
            skip_blank(true);
            TROUPE_TRY(choice.parts.emplace_back(), sequence(in_group));
        } while (take("|"));
        --depth_;
        if (choice.parts.size() == 1) return choice.parts[0];
        return add(std::move(choice));
    }

    result<std::uint32_t> sequence(bool in_group) {
        grammar::expression s{.what = kind::sequence};
        for (;;) {
            skip_blank(in_group);
            const char c = peek();
            if (c == '"') {
                TROUPE_TRY(s.parts.emplace_back(), literal());
            } else if (c == '[') {
                TROUPE_TRY(s.parts.emplace_back(), char_class());
            } else if (c == '.') {
                ++at_;
                TROUPE_TRY(s.parts.emplace_back(), add({.what = kind::set, .set = complement({})}));
            } else if (c == '(') {
                ++at_;
                TROUPE_TRY(s.parts.emplace_back(), alternatives(true));
                skip_blank(true);
                if (!take(")")) return wrong("')' is missing");
            } else if (is_word(c)) {
                const auto index = rule_index(word());
                TROUPE_TRY(s.parts.emplace_back(), add({.what = kind::rule, .rule = index}));
            } else if (c == '*' || c == '+' || c == '?' || c == '{') {
                if (s.parts.empty()) return wrong(fmt::format("there is nothing before '{}' to repeat", c));
                TROUPE_TRY(s.parts.back(), repetition(s.parts.back()));
            } else {
                break;
            }
        }
        if (s.parts.size() == 1) return s.parts[0];
        return add(std::move(s));
    }

    result<std::int32_t> number() {
        std::int64_t n = 0;
        if (peek() < '0' || peek() > '9') return wrong("a number is expected");
        for (; peek() >= '0' && peek() <= '9'; ++at_) {
            n = n * 10 + (peek() - '0');
            if (n > limits::max_grammar_repeat)
                return wrong(fmt::format("a repetition above {}", limits::max_grammar_repeat));
        }
        return static_cast<std::int32_t>(n);
    }

    result<std::uint32_t> repetition(std::uint32_t what) {
        grammar::expression r{.what = kind::repeat, .parts = {what}, .min = 0, .max = -1};
        const char c = text_[at_++];
        if (c == '+') r.min = 1;
        if (c == '?') r.max = 1;
        if (c == '{') {
            skip_blank(true);
            TROUPE_TRY(r.min, number());
            r.max = r.min;
            skip_blank(true);
            if (take(",")) {
                skip_blank(true);
                r.max = -1;
                if (peek() != '}') {
                    TROUPE_TRY(r.max, number());
                    skip_blank(true);
                }
            }
            if (!take("}")) return wrong("'}' is missing");
            if (r.max >= 0 && r.max < r.min) return wrong("a repetition's upper number is below its lower");
        }
        return add(std::move(r));
    }

    result<std::uint32_t> hex(int digits) {
        std::uint32_t value = 0;
        for (int i = 0; i < digits; ++i, ++at_) {
            const char c = peek();
            const int d = hex_digit(c);
            if (d < 0) return wrong(fmt::format("{} hexadecimal digits are expected", digits));
            value = value << 4 | static_cast<std::uint32_t>(d);
        }
        if (value > last_code_point || (value >= 0xD800 && value <= 0xDFFF))
            return wrong("an escape names no code point");
        return value;
    }

    result<std::uint32_t> code_point() {
        if (!more()) return wrong("the text ends inside a literal or class");
        if (peek() != '\\') {
            const auto c = utf8::decode(text_.data() + at_);
            at_ += c.length;
            return static_cast<std::uint32_t>(c.value);
        }
        ++at_;
        const char c = peek();
        if (more()) ++at_;
        switch (c) {
        case 'x':
            return hex(2);
        case 'u':
            return hex(4);
        case 'U':
            return hex(8);
        case 't':
            return std::uint32_t{'\t'};
        case 'r':
            return std::uint32_t{'\r'};
        case 'n':
            return std::uint32_t{'\n'};
        default:
            if (c > ' ' && c < 0x7F && !is_word(c)) return static_cast<std::uint32_t>(c);
            if (c == '-') return std::uint32_t{'-'};
            return wrong("an unknown escape");
        }
    }

    result<std::uint32_t> literal() {
        ++at_;
        grammar::expression e{.what = kind::literal};
        while (peek() != '"') {
            TROUPE_TRY(const auto c, code_point());
            append_utf8(e.text, c);
        }
        ++at_;
        return add(std::move(e));
    }

    result<std::uint32_t> char_class() {
        ++at_;
        const bool negated = take("^");
        std::vector<code_range> ranges;
        while (peek() != ']') {
            TROUPE_TRY(const auto lo, code_point());
            auto hi = lo;
            if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
                ++at_;
                TROUPE_TRY(hi, code_point());
                if (hi < lo) return wrong("a range in a class runs backwards");
            }
            ranges.push_back({lo, hi});
        }
        ++at_;
        auto set = normalized(std::move(ranges));
        if (negated) set = complement(set);
        if (set.empty()) return wrong("a class that no character matches");
        return add({.what = kind::set, .set = std::move(set)});
    }

    std::string_view text_;
    std::size_t at_ = 0;
    int depth_ = 0;
    grammar out_;
    std::unordered_map<std::string_view, std::uint32_t> index_;
};

}  // namespace

result<grammar> parse_gbnf(std::string_view text) {
    TROUPE_TRY(auto g, parser(text).run());
    TROUPE_TRYV(check_grammar(g));
    return g;
}

}  // namespace troupe::model
