// The rules are written as one line of text and looked up: an unknown one is refused, not guessed.
#include "model/formats/hf_pretokenizer.hpp"

#include <array>

#include "model/formats/gguf_parse.hpp"

namespace troupe::model::detail {

namespace {

struct known_rules {
    std::string_view rules;  ///< one rule after the other, each behind a line end
    std::string_view name;
};

#define TROUPE_TIKTOKEN(digits)                                                                                        \
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)" digits                                                 \
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
constexpr std::string_view gpt2_regex = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

constexpr std::array<known_rules, 7> all_rules{{
    {"\nbytes, words", "gpt-2"},
    {"\nwords\nbytes", "gpt-2"},
    {"\ndigit\nbytes, words", "smollm"},
    {"\nsplit " TROUPE_TIKTOKEN(R"(\p{N}{1,3})") "\nbytes", "llama-bpe"},
    {"\nsplit " TROUPE_TIKTOKEN(R"(\p{N})") "\nbytes", "qwen2"},
    // The word lists of DeepSeek LLM are long and its own: told by how they begin (see rule_text).
    {"\nsplit [\\r\\n]\nsplit \\s?[A-Za-z\u00b5...]+\nsplit "
     "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"
     "\nsplit \\s+$\nsplit [\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+\ndigit\nbytes",
        "deepseek-llm"},
    {"\nsplit [\\r\\n]\nsplit \\s?\\p{L}+\nsplit \\s?\\p{P}+\nsplit "
     "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+\ndigit\nbytes",
        "deepseek-coder"},
}};
#undef TROUPE_TIKTOKEN

error unsupported(const std::string& what) {
    return fail(errc::model_unsupported, "tokenizer.json: " + what, "pre_tokenizer");
}

result<std::string> split_text(const json_object& rule) {
    TROUPE_TRY(const auto pattern, rule.object("pattern"));
    if (!pattern) return fail(errc::model_malformed, rule.what() + " has no 'pattern'");
    TROUPE_TRY(const auto regex, pattern->text("Regex"));
    TROUPE_TRY(const auto behavior, rule.text("behavior"));
    TROUPE_TRY(const bool inverted, json_object::or_else(rule.boolean("invert"), false));
    // Removing what an inverted expression does not match is isolating what it matches.
    const bool isolated = (behavior == "Isolated" && !inverted) || (behavior == "Removed" && inverted);
    if (!regex || !isolated)
        return unsupported("a split that does not isolate a regular expression (" +
                           printable_name(behavior.value_or("no behavior")) + ") is not built");
    if (*regex == gpt2_regex) return std::string("\nwords");
    constexpr std::string_view deepseek_words = "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-";
    if (regex->starts_with(deepseek_words) && regex->ends_with("]+"))
        return std::string("\nsplit \\s?[A-Za-z\u00b5...]+");
    return "\nsplit " + std::string(*regex);
}

result<std::string> rule_text(const json_object& rule) {
    TROUPE_TRY(const auto type, rule.text("type"));
    if (type == "Sequence") {
        TROUPE_TRY(const auto list, rule.array("pretokenizers"));
        std::string all;
        if (!list) return fail(errc::model_malformed, rule.what() + " has no 'pretokenizers'");
        for (const auto element : *list) {
            dom::object o;
            if (element.get(o) != simdjson::SUCCESS) return rule.wrong("pretokenizers", "a list of objects");
            TROUPE_TRY(const auto text, rule_text(json_object(o, rule.what() + ".pretokenizers")));
            all += text;
        }
        return all;
    }
    if (type == "Split") return split_text(rule);
    if (type == "Digits") {
        TROUPE_TRY(const bool single, json_object::or_else(rule.boolean("individual_digits"), false));
        return std::string(single ? "\ndigit" : "\ndigits");
    }
    if (type == "ByteLevel") {
        TROUPE_TRY(const bool words, json_object::or_else(rule.boolean("use_regex"), true));
        TROUPE_TRY(const bool prefix, json_object::or_else(rule.boolean("add_prefix_space"), false));
        if (prefix) return unsupported("a byte-level tokenizer that adds a space in front is not built");
        return std::string(words ? "\nbytes, words" : "\nbytes");
    }
    return unsupported("pre-tokenizer " + printable_name(type.value_or("(none)")) + " is not built");
}

}  // namespace

result<std::string> byte_level_pretokenizer(const json_object& pre_tokenizer) {
    TROUPE_TRY(const auto text, rule_text(pre_tokenizer));
    for (const auto& known : all_rules)
        if (known.rules == text) return std::string(known.name);
    return unsupported("no pre-tokenizer of this build follows these rules:" + text);
}

}  // namespace troupe::model::detail
