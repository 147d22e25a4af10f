// Each rule states the regular expression it stands for. Source of the expressions: the models' tokenizer.json files.
#include "model/tokenizers/pretokenizer.hpp"

#include <array>

#include "model/tokenizers/char_class.hpp"
#include "model/tokenizers/utf8.hpp"

namespace troupe::model {

namespace {

struct character {
    char32_t value = 0;
    std::size_t length = 0;  ///< 0: end of text
    std::uint8_t bits = 0;
    bool has(int mask) const { return (bits & mask) != 0; }
    /// [^\s\p{L}\p{N}]
    bool is_other() const { return length != 0 && !has(is_space | is_letter | is_number); }
};

character at(std::string_view text, std::size_t position) {
    if (position >= text.size()) return {};
    const auto [value, length] = utf8::decode(text.data() + position);
    return {value, length, classify(value)};
}

/// End of the run of characters from `position` on that `wanted` accepts.
template <class Wanted> std::size_t run(std::string_view text, std::size_t position, Wanted wanted) {
    for (character c = at(text, position); c.length != 0 && wanted(c); c = at(text, position)) position += c.length;
    return position;
}

std::size_t run_of(std::string_view text, std::size_t position, int mask) {
    return run(text, position, [mask](const character& c) { return c.has(mask); });
}

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

/// 's|'t|'re|'ve|'m|'ll|'d, in any case if `any_case`.
std::size_t contraction(std::string_view text, bool any_case) {
    if (text[0] != '\'' || text.size() < 2) return 0;
    const auto letter = [&](std::size_t i) { return any_case ? lower(text[i]) : text[i]; };
    const char first = letter(1);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    if (text.size() < 3) return 0;
    const char second = letter(2);
    const bool two =
        (first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l');
    return two ? 3 : 0;
}

/// \s+(?!\S)|\s+ : a run of space leaves its last character to the word behind it.
std::size_t spaces(std::string_view text) {
    std::size_t last = 0;
    std::size_t end = 0;
    for (character c = at(text, 0); c.has(is_space); c = at(text, end)) {
        last = end;
        end += c.length;
    }
    return end == text.size() || last == 0 ? end : last;
}

/// \s*[\r\n]+ : up to the last line end of a run of space.
std::size_t spaces_with_newline(std::string_view text) {
    std::size_t end = 0;
    std::size_t matched = 0;
    for (character c = at(text, 0); c.has(is_space); c = at(text, end)) {
        end += c.length;
        if (c.has(is_newline)) matched = end;
    }
    return matched;
}

/// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
std::size_t gpt2_rule(std::string_view text) {
    if (const auto length = contraction(text, false)) return length;
    const std::size_t start = text[0] == ' ' ? 1 : 0;
    const character c = at(text, start);
    if (c.has(is_letter)) return run_of(text, start + c.length, is_letter);
    if (c.has(is_number)) return run_of(text, start + c.length, is_number);
    if (c.is_other()) return run(text, start + c.length, [](const character& next) { return next.is_other(); });
    return spaces(text);
}

/// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,max_digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|
/// \s+(?!\S)|\s+
template <int max_digits> std::size_t tiktoken_rule(std::string_view text) {
    if (const auto length = contraction(text, true)) return length;
    const character first = at(text, 0);
    if (first.has(is_letter)) return run_of(text, first.length, is_letter);
    if (first.has(is_number)) {
        std::size_t end = first.length;
        for (int i = 1; i < max_digits && at(text, end).has(is_number); ++i) end += at(text, end).length;
        return end;
    }
    const character second = at(text, first.length);
    if (!first.has(is_newline) && second.has(is_letter)) return run_of(text, first.length + second.length, is_letter);
    const std::size_t start = text[0] == ' ' ? 1 : 0;
    if (at(text, start).is_other()) {
        const auto end = run(text, start, [](const character& c) { return c.is_other(); });
        return run_of(text, end, is_newline);
    }
    if (const auto length = spaces_with_newline(text)) return length;
    return spaces(text);
}

/// \p{N}
std::size_t one_number(std::string_view text) {
    const character c = at(text, 0);
    return c.has(is_number) ? c.length : 0;
}

/// \p{N}+
std::size_t numbers(std::string_view text) { return run_of(text, 0, is_number); }

/// [\r\n]
std::size_t one_newline(std::string_view text) { return at(text, 0).has(is_newline) ? 1 : 0; }

/// \s?X+ for the characters X that `wanted` accepts.
template <class Wanted> std::size_t with_space(std::string_view text, Wanted wanted) {
    const character first = at(text, 0);
    const std::size_t start = first.has(is_space) ? first.length : 0;
    const auto end = run(text, start, wanted);
    if (end > start) return end;
    // X may itself be a space, which the optional one must then not take.
    return start > 0 && wanted(first) ? start : 0;
}

/// \s?\p{L}+
std::size_t letters(std::string_view text) {
    return with_space(text, [](const character& c) { return c.has(is_letter); });
}

/// \s?\p{P}+
std::size_t punctuation(std::string_view text) {
    return with_space(text, [](const character& c) { return c.has(is_punct); });
}

/// \s?X+ with deepseek-llm's list of letters.
std::size_t deepseek_letters(std::string_view text) {
    return with_space(text, [](const character& c) { return is_deepseek_letter(c.value); });
}

/// \s?[!-/:-~！-／：-～‘-‟　-。]+
std::size_t deepseek_marks(std::string_view text) {
    return with_space(text, [](const character& c) {
        const char32_t v = c.value;
        return (v >= 0x21 && v <= 0x2f) || (v >= 0x3a && v <= 0x7e) || (v >= 0xff01 && v <= 0xff0f) ||
               (v >= 0xff1a && v <= 0xff5e) || (v >= 0x2018 && v <= 0x201f) || (v >= 0x3000 && v <= 0x3002);
    });
}

/// [一-龥ࠀ-一가-퟿]+
std::size_t deepseek_ideographs(std::string_view text) {
    return run(text, 0, [](const character& c) {
        return (c.value >= 0x800 && c.value <= 0x9fa5) || (c.value >= 0xac00 && c.value <= 0xd7ff);
    });
}

/// \s+$, told as its complement: first the text before the last run of space, then that run. Searching forward for the
/// run that reaches the end would be quadratic.
std::size_t trailing_space(std::string_view text) {
    std::size_t end = text.size();
    while (end > 0) {
        std::size_t begin = end - 1;
        while ((static_cast<std::uint8_t>(text[begin]) & 0xc0) == 0x80) --begin;
        if (!at(text, begin).has(is_space)) break;
        end = begin;
    }
    return end == 0 ? text.size() : end;
}

constexpr split_rule gpt2_rules[] = {gpt2_rule};
constexpr split_rule smollm_rules[] = {one_number, gpt2_rule};
constexpr split_rule llama3_rules[] = {tiktoken_rule<3>};
constexpr split_rule qwen2_rules[] = {tiktoken_rule<1>};
constexpr split_rule deepseek_llm_rules[] = {
    one_newline, deepseek_letters, deepseek_marks, trailing_space, deepseek_ideographs, numbers};
constexpr split_rule deepseek_coder_rules[] = {one_newline, letters, punctuation, deepseek_ideographs, one_number};

constexpr std::array<pretokenizer, 14> known = {{
    {"gpt-2", gpt2_rules},
    {"phi-2", gpt2_rules},
    {"olmo", gpt2_rules},
    {"smollm", smollm_rules},
    {"starcoder", smollm_rules},
    {"command-r", smollm_rules},
    {"llama-bpe", llama3_rules, true, true},
    {"llama-v3", llama3_rules, true, true},
    {"llama3", llama3_rules, true, true},
    {"qwen2", qwen2_rules},
    {"deepseek-r1-qwen", qwen2_rules},
    {"megrez", qwen2_rules},
    {"deepseek-llm", deepseek_llm_rules},
    {"deepseek-coder", deepseek_coder_rules},
}};

/// Appends the ends of the pieces that `rule` makes of text[begin, end).
void apply(
    split_rule rule, std::string_view text, std::size_t begin, std::size_t end, std::vector<std::uint32_t>& ends) {
    std::size_t gap = begin;  // start of the text no match has taken yet
    for (std::size_t position = begin; position < end;) {
        const auto rest = text.substr(position, end - position);
        const auto length = rule(rest);
        if (length == 0) {
            position += utf8::decode(rest.data()).length;
            continue;
        }
        if (gap < position) ends.push_back(static_cast<std::uint32_t>(position));
        position += length;
        ends.push_back(static_cast<std::uint32_t>(position));
        gap = position;
    }
    if (gap < end) ends.push_back(static_cast<std::uint32_t>(end));
}

}  // namespace

const pretokenizer* pretokenizer::find(std::string_view name) {
    for (const auto& entry : known)
        if (entry.name == name) return &entry;
    return nullptr;
}

std::string pretokenizer::known_names() {
    std::string names;
    for (const auto& entry : known) names += (names.empty() ? "" : ", ") + std::string(entry.name);
    return names;
}

void pretokenizer::split(
    std::string_view text, std::vector<std::uint32_t>& ends, std::vector<std::uint32_t>& scratch) const {
    ends.clear();
    if (text.empty()) return;
    ends.push_back(static_cast<std::uint32_t>(text.size()));
    for (const auto rule : rules) {
        scratch.swap(ends);
        ends.clear();
        std::size_t begin = 0;
        for (const auto end : scratch) {
            apply(rule, text, begin, end, ends);
            begin = end;
        }
    }
}

}  // namespace troupe::model
