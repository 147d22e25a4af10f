// The lexer: a walk over the text between tags, and one over what is inside them.
#include "model/templates/lexer.hpp"

#include <algorithm>
#include <array>

#include "model/templates/meter.hpp"
#include "model/templates/text.hpp"

namespace troupe::model::jinja {

namespace {

/// Line ends become \n; one at the very end goes (jinja's keep_trailing_newline off).
std::string normalize(std::string_view source) {
    std::string out;
    out.reserve(source.size());
    for (std::size_t i = 0; i < source.size(); ++i) {
        if (source[i] == '\r') {
            out += '\n';
            if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
        } else {
            out += source[i];
        }
    }
    if (!out.empty() && out.back() == '\n') out.pop_back();
    return out;
}

bool is_name_start(char32_t c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= 0x80 && c != 0xFFFD && !is_space(c));
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }

int hex_digit(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

class lexer {
 public:
    explicit lexer(std::string source) : source_(std::move(source)), s_(source_) {}

    std::vector<token> run() {
        while (at_ < s_.size()) text_and_tag();
        push(token_kind::end, "");
        return std::move(tokens_);
    }

 private:
    [[noreturn]] void fail(std::string message) const { throw failure{std::move(message), line_}; }

    void push(token_kind kind, std::string_view text) { tokens_.push_back({kind, std::string(text), line_}); }

    void advance_to(std::size_t to) {
        line_ += static_cast<int>(std::count(
            s_.begin() + static_cast<std::ptrdiff_t>(at_), s_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
        at_ = to;
    }

    bool starts(std::size_t at, std::string_view what) const { return s_.substr(at, what.size()) == what; }

    /// Where the next of {{ {% {# is.
    std::size_t next_tag() const {
        for (std::size_t i = at_; (i = s_.find('{', i)) != std::string_view::npos; ++i) {
            if (i + 1 < s_.size() && (s_[i + 1] == '{' || s_[i + 1] == '%' || s_[i + 1] == '#')) return i;
        }
        return s_.size();
    }

    /// The data before a tag, cut as its sign and lstrip_blocks want.
    std::string_view cut(std::string_view data, char sign, bool block) const {
        if (sign == '-') return data.substr(0, trim_end(data));
        if (sign == '+' || !block) return data;
        const std::size_t newline = data.rfind('\n');
        const std::size_t from = newline == std::string_view::npos ? 0 : newline + 1;
        if (from == 0 && !line_start_) return data;
        if (from < data.size() && skip_space(data, from) == data.size()) return data.substr(0, from);
        return data;
    }

    /// After the end of a block or comment: `-` eats all white space, none of the signs eats one newline.
    void after_block_end(char sign) {
        if (sign == '-') {
            advance_to(skip_space(s_, at_));
        } else if (sign != '+' && at_ < s_.size() && s_[at_] == '\n') {
            advance_to(at_ + 1);
        }
        note_line_start();
    }
    void note_line_start() { line_start_ = at_ == 0 || s_[at_ - 1] == '\n'; }

    void text_and_tag() {
        const std::size_t tag = next_tag();
        const std::string_view data = s_.substr(at_, tag - at_);
        if (tag == s_.size()) {
            if (!data.empty()) push(token_kind::data, data);
            return advance_to(tag);
        }
        const char type = s_[tag + 1];
        const char sign = tag + 2 < s_.size() && (s_[tag + 2] == '-' || s_[tag + 2] == '+') ? s_[tag + 2] : ' ';
        const std::string_view kept = cut(data, sign, type != '{');
        if (!kept.empty()) push(token_kind::data, kept);
        advance_to(tag + 2 + (sign == ' ' ? 0 : 1));
        if (type == '#') return comment();
        if (type == '%' && raw()) return;
        push(type == '{' ? token_kind::print_begin : token_kind::block_begin, "");
        inside(type == '{');
    }

    void comment() {
        const std::size_t end = s_.find("#}", at_);
        if (end == std::string_view::npos) fail("Missing end of comment tag");
        const char sign = end > at_ && (s_[end - 1] == '-' || s_[end - 1] == '+') ? s_[end - 1] : ' ';
        advance_to(end + 2);
        after_block_end(sign);
    }

    /// `at` is behind "{%": is there `raw %}`? If so consumes the whole raw block.
    bool raw() {
        std::size_t i = skip_space(s_, at_);
        if (!starts(i, "raw")) return false;
        i = skip_space(s_, i + 3);
        const bool minus = starts(i, "-%}");
        if (!minus && !starts(i, "%}")) return false;
        advance_to(i + (minus ? 3 : 2));
        if (minus) advance_to(skip_space(s_, at_));
        note_line_start();
        for (std::size_t tag = at_; (tag = s_.find("{%", tag)) != std::string_view::npos; ++tag) {
            std::size_t k = tag + 2;
            const char sign = k < s_.size() && (s_[k] == '-' || s_[k] == '+') ? s_[k] : ' ';
            k = skip_space(s_, k + (sign == ' ' ? 0 : 1));
            if (!starts(k, "endraw")) continue;
            k = skip_space(s_, k + 6);
            const char end_sign = k < s_.size() && (s_[k] == '-' || s_[k] == '+') ? s_[k] : ' ';
            k += end_sign == ' ' ? 0 : 1;
            if (!starts(k, "%}")) continue;
            const std::string_view kept = cut(s_.substr(at_, tag - at_), sign, true);
            if (!kept.empty()) push(token_kind::data, kept);
            advance_to(k + 2);
            after_block_end(end_sign);
            return true;
        }
        fail("Missing end of raw directive");
    }

    /// The tokens of one tag up to and with its end.
    void inside(bool print) {
        std::string open;  // brackets not yet closed: inside them }} and %} are no ends
        const std::string_view end = print ? "}}" : "%}";
        while (true) {
            advance_to(skip_space(s_, at_));
            if (at_ >= s_.size()) fail("unexpected end of template");
            if (open.empty()) {
                const char sign =
                    (s_[at_] == '-' || (s_[at_] == '+' && !print)) && starts(at_ + 1, end) ? s_[at_] : ' ';
                if (sign != ' ' || starts(at_, end)) return finish_tag(print, sign);
            }
            const char c = s_[at_];
            if (c == '\'' || c == '"') {
                string(c);
            } else if (is_digit(c)) {
                digits();
            } else if (is_name_start(code_point(s_, at_))) {
                name();
            } else {
                op(open);
            }
        }
    }

    void finish_tag(bool print, char sign) {
        push(print ? token_kind::print_end : token_kind::block_end, "");
        advance_to(at_ + (sign == ' ' ? 2 : 3));
        if (!print) return after_block_end(sign);
        if (sign == '-') advance_to(skip_space(s_, at_));
        note_line_start();
    }

    void name() {
        std::size_t end = at_;
        while (end < s_.size() && (is_digit(s_[end]) || is_name_start(code_point(s_, end)))) end += char_size(s_, end);
        push(token_kind::name, s_.substr(at_, end - at_));
        advance_to(end);
    }

    /// Digits (of `base`) with single underscores between them, from `i` on; returns where they end.
    std::size_t digits_end(std::size_t i, int base) const {
        const auto is = [&](std::size_t at) {
            const int d = at < s_.size() ? hex_digit(s_[at]) : -1;
            return d >= 0 && d < base;
        };
        while (is(i) || (i < s_.size() && s_[i] == '_' && is(i + 1))) ++i;
        return i;
    }

    void digits() {
        std::size_t end = at_;
        token_kind kind = token_kind::integer;
        const char prefix = s_[at_] == '0' && at_ + 1 < s_.size() ? static_cast<char>(s_[at_ + 1] | 0x20) : ' ';
        const int base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
        if (base != 10) {
            end = digits_end(at_ + 2, base);
        } else {
            end = digits_end(at_, 10);
            const bool after_dot = at_ > 0 && s_[at_ - 1] == '.';  // `list.0.1` is two look-ups, no number 0.1
            if (!after_dot && end + 1 < s_.size() && s_[end] == '.' && is_digit(s_[end + 1])) {
                end = digits_end(end + 1, 10);
                kind = token_kind::real;
            }
            if (!after_dot && end < s_.size() && (s_[end] | 0x20) == 'e') {
                const std::size_t sign = end + 1 < s_.size() && (s_[end + 1] == '+' || s_[end + 1] == '-') ? 1 : 0;
                if (end + 1 + sign < s_.size() && is_digit(s_[end + 1 + sign])) {
                    end = digits_end(end + 1 + sign, 10);
                    kind = token_kind::real;
                }
            }
        }
        std::string number(s_.substr(at_, end - at_));
        std::erase(number, '_');
        push(kind, number);
        advance_to(end);
    }

    void op(std::string& open) {
        static constexpr std::array<std::string_view, 6> two = {"//", "**", "==", "!=", ">=", "<="};
        std::string_view op = s_.substr(at_, 1);
        for (const auto candidate : two) {
            if (starts(at_, candidate)) op = candidate;
        }
        if (op.size() == 1 && std::string_view("+-/*%~[](){}<>=.:|,;").find(op[0]) == std::string_view::npos) {
            fail("unexpected char '" + std::string(s_.substr(at_, char_size(s_, at_))) + "'");
        }
        if (op == "(" || op == "[" || op == "{") open += op[0] == '(' ? ')' : op[0] == '[' ? ']' : '}';
        if (op == ")" || op == "]" || op == "}") {
            if (open.empty()) fail("unexpected '" + std::string(op) + "'");
            if (open.back() != op[0]) fail("unexpected '" + std::string(op) + "', expected '" + open.back() + "'");
            open.pop_back();
        }
        push(token_kind::op, op);
        advance_to(at_ + op.size());
    }

    void string(char quote) {
        std::string out;
        std::size_t i = at_ + 1;
        while (i < s_.size() && s_[i] != quote) {
            if (s_[i] != '\\') {
                out += s_[i++];
            } else if (i + 1 < s_.size()) {
                i = escape(i + 1, out);
            } else {
                ++i;
            }
        }
        if (i >= s_.size()) fail("unexpected end of a string");
        push(token_kind::string, out);
        advance_to(i + 1);
    }

    /// `i` is behind the backslash; returns the offset behind the sequence. Unknown ones stay as written, as in Python.
    std::size_t escape(std::size_t i, std::string& out) {
        static constexpr std::string_view from = "abfnrtv\\'\"", to = "\a\b\f\n\r\t\v\\'\"";
        const char c = s_[i];
        if (c == '\n') return i + 1;
        if (const auto k = from.find(c); k != std::string_view::npos) {
            out += to[k];
            return i + 1;
        }
        if (c >= '0' && c <= '7') {
            char32_t octal = 0;
            std::size_t n = 0;
            for (; n < 3 && i + n < s_.size() && s_[i + n] >= '0' && s_[i + n] <= '7'; ++n) {
                octal = octal * 8 + static_cast<char32_t>(s_[i + n] - '0');
            }
            append_utf8(out, octal);
            return i + n;
        }
        const std::size_t length = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
        if (length == 0) {
            out += '\\';
            return i;
        }
        char32_t code = 0;
        for (std::size_t n = 1; n <= length; ++n) {
            const int d = i + n < s_.size() ? hex_digit(s_[i + n]) : -1;
            if (d < 0) fail("bad escape sequence in a string");
            code = code * 16 + static_cast<char32_t>(d);
        }
        if (code > 0x10FFFF) fail("bad escape sequence in a string");
        append_utf8(out, code >= 0xD800 && code < 0xE000 ? U'\uFFFD' : code);
        return i + 1 + length;
    }

    std::string source_;
    std::string_view s_;
    std::size_t at_ = 0;
    int line_ = 1;
    bool line_start_ = true;  ///< does the text at at_ start a line?
    std::vector<token> tokens_;
};

}  // namespace

std::vector<token> tokenize(std::string_view source) { return lexer(normalize(source)).run(); }

}  // namespace troupe::model::jinja
