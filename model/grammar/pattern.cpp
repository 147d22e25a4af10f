// Recursive descent over the expression; every position of text becomes the JSON spellings of its characters.
#include "model/grammar/pattern.hpp"

#include <fmt/format.h>

#include "core/limits.hpp"
#include "model/tokenizers/utf8.hpp"

namespace troupe::model {
namespace {

constexpr int max_nesting = 24;

const code_set& digits() {
    static const code_set s = normalized({{'0', '9'}});
    return s;
}
const code_set& words() {
    static const code_set s = normalized({{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}});
    return s;
}
const code_set& spaces() {
    static const code_set s = normalized({{'\t', '\r'}, {' ', ' '}});
    return s;
}
/// The readings of \D, \W and \S differ beyond ASCII; within it they agree
/// (but for U+001C..001F, which Python counts as spaces).
code_set ascii_without(const code_set& s) { return intersection(complement(s), normalized({{0, 0x1B}, {0x20, 0x7F}})); }

class reader {
 public:
    reader(std::string_view text, rule_book& rules) : text_(text), rules_(rules) {}

    result<std::string> run() {
        if (!utf8::well_formed(text_)) return wrong("it is not UTF-8");
        std::vector<std::string> ways;
        do {
            TROUPE_TRY(ways.emplace_back(), outer());
        } while (take('|'));
        if (more()) return wrong("')' without '('");
        return ways.size() == 1 ? ways[0] : fmt::format("({})", fmt::join(ways, " | "));
    }

 private:
    static error wrong(std::string_view what) {
        return fail(errc::unsupported_parameter, fmt::format("the pattern is not supported: {}", what));
    }
    bool more() const { return at_ < text_.size(); }
    char peek() const { return more() ? text_[at_] : '\0'; }
    bool take(char c) {
        if (peek() != c || !more()) return false;
        ++at_;
        return true;
    }
    bool take(std::string_view s) {
        if (text_.substr(at_, s.size()) != s) return false;
        at_ += s.size();
        return true;
    }

    /// An alternative of the whole pattern, where anchors may stand.
    result<std::string> outer() {
        const auto anything = rules_.common("char") + "*";
        std::string out = take('^') ? "" : anything + " ";
        TROUPE_TRY(const auto body, sequence());
        out += body;
        if (!take('$')) return out + " " + anything;
        if (more() && peek() != '|') return wrong("'$' in the middle");
        return out;
    }

    result<std::string> sequence() {
        std::string out;
        while (more() && peek() != '|' && peek() != ')' && peek() != '$') {
            TROUPE_TRY(auto item, atom());
            TROUPE_TRYV(repetition(item));
            out += (out.empty() ? "" : " ") + item;
        }
        return out.empty() ? std::string("\"\"") : out;
    }

    result<std::string> atom() {
        const char c = peek();
        if (c == '(') return group();
        if (c == '[') return bracket();
        if (c == '.') {
            ++at_;
            return json_characters(complement(normalized({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}})));
        }
        if (c == '^') return wrong("'^' in the middle");
        if (c == '*' || c == '+' || c == '?' || c == '{') return wrong("a repetition of nothing");
        TROUPE_TRY(const auto set, character());
        return json_characters(set);
    }

    result<std::string> group() {
        ++at_;
        if (++nesting_ > max_nesting) return wrong("groups are nested too deeply");
        if (take("?P<") || (text_.substr(at_, 2) == "?<" && text_.substr(at_, 3) != "?<=" &&
                               text_.substr(at_, 3) != "?<!" && take("?<"))) {
            while (more() && peek() != '>') ++at_;
            if (!take('>')) return wrong("a group's name has no end");
        } else if (!take("?:") && peek() == '?') {
            return wrong("look-around and flags");
        }
        std::vector<std::string> ways;
        do {
            TROUPE_TRY(ways.emplace_back(), sequence());
            if (peek() == '$' && more()) return wrong("'$' inside a group");
        } while (take('|'));
        if (!take(')')) return wrong("')' is missing");
        --nesting_;
        return fmt::format("({})", fmt::join(ways, " | "));
    }

    result<void> repetition(std::string& item) {
        const char c = peek();
        std::string times;
        if (c == '*' || c == '+' || c == '?') {
            times = c;
            ++at_;
        } else if (c == '{') {
            TROUPE_TRY(times, counts());
        } else {
            return {};
        }
        take('?');  // lazy: the same strings
        const char after = peek();
        if (more() && (after == '*' || after == '+' || after == '?' || after == '{'))
            return wrong("a repetition of a repetition");
        item = "(" + item + ")" + times;
        return {};
    }

    result<std::string> counts() {
        ++at_;
        const auto number = [&]() -> std::int64_t {
            std::int64_t n = -1;
            for (; peek() >= '0' && peek() <= '9' && n <= limits::max_grammar_repeat; ++at_)
                n = std::max<std::int64_t>(n, 0) * 10 + (peek() - '0');
            return n;
        };
        const auto lo = number();
        auto hi = lo;
        if (take(',')) hi = peek() == '}' ? -1 : number();
        if (lo < 0 || !take('}') || (hi >= 0 && hi < lo)) return wrong("'{' that is no repetition");
        if (std::max(lo, hi) > limits::max_grammar_repeat) return wrong("a repetition that is too large");
        if (hi == lo) return fmt::format("{{{}}}", lo);
        return hi < 0 ? fmt::format("{{{},}}", lo) : fmt::format("{{{},{}}}", lo, hi);
    }

    result<std::uint32_t> hex(int n) {
        std::uint32_t v = 0;
        for (int i = 0; i < n; ++i, ++at_) {
            const char c = peek();
            const char l = static_cast<char>(c | 0x20);
            if (c >= '0' && c <= '9')
                v = v * 16 + static_cast<std::uint32_t>(c - '0');
            else if (l >= 'a' && l <= 'f')
                v = v * 16 + static_cast<std::uint32_t>(l - 'a' + 10);
            else
                return wrong("an escape without its digits");
        }
        if (v >= 0xD800 && v <= 0xDFFF) return wrong("a surrogate");
        return v;
    }

    /// One character or class escape, outside or inside brackets.
    result<code_set> character() {
        if (peek() != '\\') {
            const auto c = utf8::decode(text_.data() + at_);
            at_ += c.length;
            return normalized({{c.value, c.value}});
        }
        ++at_;
        if (!more()) return wrong("'\\' at the end");
        const char c = text_[at_];
        if (static_cast<unsigned char>(c) >= 0x80) return wrong("an escape of a letter");
        ++at_;
        const auto one = [](std::uint32_t x) { return normalized({{x, x}}); };
        switch (c) {
        case 'd':
            return digits();
        case 'w':
            return words();
        case 's':
            return spaces();
        case 'D':
            return ascii_without(digits());
        case 'W':
            return ascii_without(words());
        case 'S':
            return ascii_without(spaces());
        case 'n':
            return one('\n');
        case 'r':
            return one('\r');
        case 't':
            return one('\t');
        case 'f':
            return one('\f');
        case 'v':
            return one('\v');
        case 'x':
        case 'u': {
            TROUPE_TRY(const auto v, hex(c == 'x' ? 2 : 4));
            return one(v);
        }
        default:
            if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_')
                return wrong(fmt::format("'\\{}'", c));
            return one(static_cast<unsigned char>(c));
        }
    }

    result<std::string> bracket() {
        ++at_;
        const bool negated = take('^');
        std::vector<code_range> ranges;
        bool wide_class = false;  // \d, \w, \s mean more than ASCII to Python
        while (peek() != ']') {
            if (!more()) return wrong("']' is missing");
            if (peek() == '[' && text_.substr(at_, 2) == "[:") return wrong("a named class");
            TROUPE_TRY(auto set, character());
            const bool single = set.size() == 1 && set[0].lo == set[0].hi;
            wide_class = wide_class || !single;
            if (single && peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
                ++at_;
                TROUPE_TRY(const auto upper, character());
                if (upper.size() != 1 || upper[0].lo != upper[0].hi || upper[0].lo < set[0].lo)
                    return wrong("a range of a class");
                set[0].hi = upper[0].lo;
            }
            ranges.insert(ranges.end(), set.begin(), set.end());
        }
        ++at_;
        auto set = normalized(std::move(ranges));
        if (negated) set = wide_class ? ascii_without(set) : complement(set);
        if (set.empty()) return wrong("a class that no character matches");
        return json_characters(set);
    }

    std::string_view text_;
    rule_book& rules_;
    std::size_t at_ = 0;
    int nesting_ = 0;
};

}  // namespace

result<std::string> grammar_of_pattern(std::string_view pattern, rule_book& rules) {
    return reader(pattern, rules).run();
}

}  // namespace troupe::model
