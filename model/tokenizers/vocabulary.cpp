// Reads tokenizer.ggml.* into a vocabulary. The token types stored in the file are believed: a text that looks like a
// control token does not make a token one (in Gemma 3 and Qwen2 "</s>" is ordinary text).
#include "model/tokenizers/vocabulary.hpp"

#include <algorithm>
#include <limits>

#include "model/tokenizer_keys.hpp"

namespace troupe::model {

namespace {

constexpr std::string_view prefix = "tokenizer.ggml.";

error malformed(std::string what) { return fail(errc::model_malformed, "malformed tokenizer: " + std::move(what)); }

/// Names under which models end a turn, a message or a text, beside the ids the metadata gives. Source: the chat
/// formats of the Llama 3, ChatML, Phi, Gemma, gpt-oss, DeepSeek and Kimi families.
constexpr std::string_view end_names[] = {"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|im_end|>", "<|endoftext|>",
    "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>", "<turn|>", "<eos>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
    "<end_of_utterance>", "<|end_of_turn|>", "<｜end▁of▁sentence｜>"};

result<std::vector<token_kind>> load_kinds(const model_file& file, std::size_t n_tokens) {
    TROUPE_TRY(const auto types, file.get_ints("tokenizer.ggml.token_type"));
    std::vector<token_kind> kinds(n_tokens, token_kind::normal);
    if (!types) return kinds;
    if (types->size() != n_tokens)
        return malformed(
            "token_type has " + std::to_string(types->size()) + " entries for " + std::to_string(n_tokens) + " tokens");
    for (std::size_t i = 0; i < n_tokens; ++i) {
        const auto type = (*types)[i];
        if (type < 1 || type > 6)
            return malformed("token " + std::to_string(i) + " has type " + std::to_string(type) + "; 1 to 6 are known");
        kinds[i] = static_cast<token_kind>(type);
    }
    return kinds;
}

/// The value of a tokenizer.ggml.*_token_id key, or `fallback` if it is absent.
result<token_id> load_id(const model_file& file, std::string_view name, std::int32_t n_tokens, token_id fallback) {
    TROUPE_TRY(const auto id, file.get_uint(std::string(prefix) + std::string(name)));
    if (!id) return fallback < n_tokens ? fallback : -1;
    if (*id >= static_cast<std::uint64_t>(n_tokens))
        return malformed(std::string(name) + " " + std::to_string(*id) + " is not below the vocabulary's size " +
                         std::to_string(n_tokens));
    return static_cast<token_id>(*id);
}

/// Also the ids this build has no use for must exist.
result<void> check_all_ids(const model_file& file, std::int32_t n_tokens) {
    for (const auto key : file.keys())
        if (key.starts_with(prefix) && key.ends_with("_token_id"))
            TROUPE_TRYV(load_id(file, key.substr(prefix.size()), n_tokens, -1));
    return {};
}

bool names_an_end(std::string_view text, token_kind kind) {
    if (kind == token_kind::control && text == "</s>") return true;
    if (kind != token_kind::control && kind != token_kind::user_defined) return false;
    return std::find(std::begin(end_names), std::end(end_names), text) != std::end(end_names);
}

result<void> load_end_tokens(const model_file& file, vocabulary& words) {
    words.is_end.assign(words.texts.size(), false);
    for (const auto name : {"eot_token_id", "eom_token_id"}) {
        TROUPE_TRY(const auto id, load_id(file, name, words.size(), -1));
        if (id >= 0) words.is_end[static_cast<std::size_t>(id)] = true;
    }
    if (words.eos >= 0) words.is_end[static_cast<std::size_t>(words.eos)] = true;
    TROUPE_TRY(const auto listed, file.get_ints(tokenizer_keys::end_ids));
    for (const auto id : listed.value_or(std::vector<std::int64_t>())) {
        if (id < 0 || id >= words.size()) return malformed("an end token's id is outside the vocabulary");
        words.is_end[static_cast<std::size_t>(id)] = true;
    }
    for (std::size_t i = 0; i < words.texts.size(); ++i) {
        if (names_an_end(words.texts[i], words.kinds[i])) words.is_end[i] = true;
        if (words.is_end[i]) words.end_tokens.push_back(static_cast<token_id>(i));
    }
    return {};
}

}  // namespace

bool vocabulary::trusted_only(token_id id) const {
    const auto kind = kinds[static_cast<std::size_t>(id)];
    if (kind == token_kind::control || kind == token_kind::unknown) return true;
    return kind == token_kind::user_defined && (id == bos || is_end[static_cast<std::size_t>(id)]);
}

result<vocabulary> load_vocabulary(const model_file& file, const vocabulary_traits& traits) {
    TROUPE_TRY(const auto tokens, file.get_strings("tokenizer.ggml.tokens"));
    if (!tokens || tokens->empty()) return malformed("the file has no tokens");
    if (tokens->size() > std::numeric_limits<std::int32_t>::max()) return malformed("too many tokens");
    vocabulary words;
    words.texts.assign(tokens->begin(), tokens->end());
    TROUPE_TRY(words.kinds, load_kinds(file, words.texts.size()));
    words.pieces.reserve(words.texts.size());
    for (std::size_t i = 0; i < words.texts.size(); ++i)
        words.pieces.push_back(traits.piece_of(words.texts[i], words.kinds[i]));
    TROUPE_TRYV(check_all_ids(file, words.size()));
    TROUPE_TRY(words.bos, load_id(file, "bos_token_id", words.size(), traits.bos));
    TROUPE_TRY(words.eos, load_id(file, "eos_token_id", words.size(), traits.eos));
    TROUPE_TRY(words.unknown, load_id(file, "unknown_token_id", words.size(), traits.unknown));
    TROUPE_TRY(const auto add_bos, file.get_bool("tokenizer.ggml.add_bos_token"));
    TROUPE_TRY(const auto add_eos, file.get_bool("tokenizer.ggml.add_eos_token"));
    words.add_bos = add_bos.value_or(traits.adds_bos) && words.bos >= 0;
    words.add_eos = add_eos.value_or(false) && words.eos >= 0;
    TROUPE_TRYV(load_end_tokens(file, words));
    return words;
}

special_matcher make_matcher(const vocabulary& words) {
    std::vector<special_token> tokens;
    for (token_id id = 0; id < words.size(); ++id) {
        const auto& text = words.texts[static_cast<std::size_t>(id)];
        const bool trusted_only = words.trusted_only(id);
        if (trusted_only || words.kinds[static_cast<std::size_t>(id)] == token_kind::user_defined)
            tokens.push_back({text, id, trusted_only});
    }
    return special_matcher(tokens);
}

}  // namespace troupe::model
