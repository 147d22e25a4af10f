// Each rule states the regular expression it stands for. Source of the expressions: the models' tokenizer.json files.
#include "model/tokenizers/pretokenizer.hpp"

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

/// \p{N}{1,most}, of which `first` is the first
std::size_t some_numbers(std::string_view text, const character& first, int most) {
    std::size_t end = first.length;
    for (int i = 1; i < most && at(text, end).has(is_number); ++i) end += at(text, end).length;
    return end;
}

/// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?W+|\p{N}{1,max_digits}| ?[^\sW\p{N}]+[\r\n]*|\s*[\r\n]+|
/// \s+(?!\S)|\s+ with the classes of `word` as W: letters, or letters and marks
template <int max_digits, int word = is_letter> std::size_t tiktoken_rule(std::string_view text) {
    if (const auto length = contraction(text, true)) return length;
    const character first = at(text, 0);
    if (first.has(word)) return run_of(text, first.length, word);
    if (first.has(is_number)) return some_numbers(text, first, max_digits);
    const character second = at(text, first.length);
    if (!first.has(is_newline) && second.has(word)) return run_of(text, first.length + second.length, word);
    const auto other = [](const character& c) { return c.length != 0 && !c.has(is_space | is_number | word); };
    const std::size_t start = text[0] == ' ' ? 1 : 0;
    if (other(at(text, start))) return run_of(text, run(text, start, other), is_newline);
    if (const auto length = spaces_with_newline(text)) return length;
    return spaces(text);
}

/// End of U*L+ from `start` on, else (if `or_upper`) of U+: U are letters that are not lower case, L those that are not
/// upper case, marks and letters without case are both. 0: no match.
std::size_t cased_word(std::string_view text, std::size_t start, bool or_upper) {
    std::size_t end = start, both = 0;  // both: end of the last character of the run that may be the L
    character c = at(text, start);
    for (; c.has(is_letter | is_mark) && !c.has(is_lower); c = at(text, end)) {
        end += c.length;
        if (!c.has(is_upper)) both = end;
    }
    if (or_upper) return end > start ? end : 0;
    if (c.has(is_lower))
        return run(text, end, [](const character& l) { return l.has(is_letter | is_mark) && !l.has(is_upper); });
    return both;
}

/// [^\r\n\p{L}\p{N}]?U*L+S|[^\r\n\p{L}\p{N}]?U+L*S|\p{N}{1,max_digits}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|
/// \s+(?!\S)|\s+ with U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], L = [\p{Ll}\p{Lm}\p{Lo}\p{M}], S = a contraction or nothing
template <int max_digits, bool contractions> std::size_t cased_rule(std::string_view text) {
    const character first = at(text, 0);
    if (first.has(is_number)) return some_numbers(text, first, max_digits);
    const std::size_t prefix = first.has(is_letter | is_newline) ? 0 : first.length;
    for (const bool or_upper : {false, true})
        for (const std::size_t start : {prefix, std::size_t{0}})
            if (const auto end = cased_word(text, start, or_upper); end > start) {
                const auto rest = text.substr(end);
                return end + (contractions && !rest.empty() ? contraction(rest, true) : 0);
            }
    const std::size_t start = text[0] == ' ' ? 1 : 0;
    if (at(text, start).is_other()) {
        auto end = run(text, start, [](const character& c) { return c.is_other(); });
        while (end < text.size() && (text[end] == '\r' || text[end] == '\n' || text[end] == '/')) ++end;
        return end;
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

/// [0-9][0-9][0-9]
std::size_t three_digits(std::string_view text) {
    const auto digit = [&](std::size_t i) { return text[i] >= '0' && text[i] <= '9'; };
    return text.size() >= 3 && digit(0) && digit(1) && digit(2) ? 3 : 0;
}

/// [\p{P}$+<=>^~|]+, of Falcon also `
template <bool backtick> std::size_t marks(std::string_view text) {
    return run(text, 0, [](const character& c) {
        constexpr std::u32string_view symbols = U"$+<=>^~|";
        return c.has(is_punct) || symbols.find(c.value) != symbols.npos || (backtick && c.value == '`');
    });
}

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
constexpr split_rule falcon_rules[] = {marks<true>, gpt2_rule, three_digits};
constexpr split_rule default_rules[] = {marks<false>, gpt2_rule, numbers, three_digits};
constexpr split_rule llama3_rules[] = {tiktoken_rule<3>};
constexpr split_rule qwen2_rules[] = {tiktoken_rule<1>};
constexpr split_rule qwen35_rules[] = {tiktoken_rule<1, is_letter | is_mark>};
constexpr split_rule gpt4o_rules[] = {cased_rule<3, true>};
constexpr split_rule tekken_rules[] = {cased_rule<1, false>};
constexpr split_rule deepseek_llm_rules[] = {
    one_newline, deepseek_letters, deepseek_marks, trailing_space, deepseek_ideographs, numbers};
constexpr split_rule deepseek_coder_rules[] = {one_newline, letters, punctuation, deepseek_ideographs, one_number};

// Which names share an expression: llama.cpp's table of them (facts, as in the sdist the tests take vocabularies from).
constexpr pretokenizer known[] = {
    {"default", default_rules},
    {"gpt-2", gpt2_rules},
    {"phi-2", gpt2_rules},
    {"olmo", gpt2_rules},
    {"mpt", gpt2_rules},
    {"jais", gpt2_rules},
    {"trillion", gpt2_rules},
    {"granite-docling", gpt2_rules},
    {"gigachat", gpt2_rules},
    {"exaone4", gpt2_rules},
    {"smollm", smollm_rules},
    {"starcoder", smollm_rules},
    {"refact", smollm_rules},
    {"command-r", smollm_rules},
    {"codeshell", smollm_rules},
    {"exaone", smollm_rules},
    {"minerva-7b", smollm_rules},
    {"falcon", falcon_rules},
    {"llama-bpe", llama3_rules, true, true},
    {"llama-v3", llama3_rules, true, true},
    {"llama3", llama3_rules, true, true},
    {"falcon3", llama3_rules, true, true},
    {"falcon-h1", llama3_rules, true, true},
    {"pixtral", llama3_rules, true, true},
    {"lfm2", llama3_rules, true, true},
    {"dbrx", llama3_rules},
    {"smaug-bpe", llama3_rules},
    {"chatglm-bpe", llama3_rules},
    {"glm4", llama3_rules, true},
    {"qwen2", qwen2_rules},
    {"deepseek-r1-qwen", qwen2_rules},
    {"megrez", qwen2_rules},
    {"stablelm2", qwen2_rules},
    {"hunyuan", qwen2_rules},
    {"solar-open", qwen2_rules},
    {"grok-2", qwen2_rules},
    {"qwen35", qwen35_rules},
    {"gpt-4o", gpt4o_rules},
    {"llama4", gpt4o_rules},
    {"tekken", tekken_rules, true, true},
    {"deepseek-llm", deepseek_llm_rules},
    {"deepseek-coder", deepseek_coder_rules},
};

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
