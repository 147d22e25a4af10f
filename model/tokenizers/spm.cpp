// SentencePiece-style tokenizing: characters merge into the token with the best score, what is no token falls back to
// byte tokens. Works with real spaces where the vocabulary writes U+2581.
#include <array>
#include <bit>
#include <charconv>
#include <cmath>

#include "model/tokenizer_keys.hpp"
#include "model/tokenizers/families.hpp"
#include "model/tokenizers/flat_map.hpp"
#include "model/tokenizers/merge_table.hpp"
#include "model/tokenizers/tokenizer_base.hpp"
#include "model/tokenizers/utf8.hpp"

namespace troupe::model {

namespace {

constexpr std::string_view escaped_space = "\xe2\x96\x81";  // U+2581

error malformed(std::string what) { return fail(errc::model_malformed, "malformed tokenizer: " + std::move(what)); }

void append_unescaped(std::string& out, std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
        const auto next = text.find(escaped_space, at);
        out += text.substr(at, next - at);
        if (next == std::string_view::npos) return;
        out += ' ';
        at = next + escaped_space.size();
    }
}

/// The byte that "<0x0A>" names; -1: it names none.
int named_byte(std::string_view text) {
    if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
    int byte = -1;
    const auto [end, failure] = std::from_chars(text.data() + 3, text.data() + 5, byte, 16);
    return failure == std::errc() && end == text.data() + 5 ? byte : -1;
}

std::string spm_piece(std::string_view text, token_kind kind) {
    std::string piece;
    switch (kind) {
    case token_kind::normal:
    case token_kind::unused:
        append_unescaped(piece, text);
        return piece;
    case token_kind::byte:
        if (const int byte = named_byte(text); byte >= 0) return piece = static_cast<char>(byte);
        return piece;
    default:
        return std::string(text);
    }
}

/// Rank in merging order: the same order as descending scores, equal for equal scores.
std::uint32_t rank_of(float score) {
    const auto bits = std::bit_cast<std::uint32_t>(score + 0.0F);  // -0 becomes 0
    const auto ascending = (bits & 0x80000000u) ? ~bits : bits | 0x80000000u;
    return ~ascending;
}

result<std::vector<std::uint32_t>> load_ranks(const model_file& file, const vocabulary& words) {
    TROUPE_TRY(const auto scores, file.get_floats("tokenizer.ggml.scores"));
    if (!scores) return malformed("a llama tokenizer needs tokenizer.ggml.scores");
    if (scores->size() != words.texts.size())
        return malformed("scores has " + std::to_string(scores->size()) + " entries for " +
                         std::to_string(words.texts.size()) + " tokens");
    std::vector<std::uint32_t> ranks;
    ranks.reserve(scores->size());
    for (const double score : *scores) {
        if (std::isnan(score)) return malformed("a score is not a number");
        ranks.push_back(rank_of(static_cast<float>(score)));
    }
    return ranks;
}

/// Which two characters stand side by side in some token. Text between two that never do can be cut there beforehand:
/// no token reaches across.
class neighbour_set {
 public:
    void add_all_of(std::string_view token) {
        if (token.empty()) return;
        auto left = utf8::decode(token.data());
        for (std::size_t at = left.length; at < token.size();) {
            const auto right = utf8::decode(token.data() + at);
            if ((left.value | right.value) < 128) {
                ascii_[left.value * 128 + right.value] = true;
            } else {
                others_.insert(key(left.value, right.value), true);
            }
            at += right.length;
            left = right;
        }
    }

    bool has(char32_t left, char32_t right) const {
        if ((left | right) < 128) return ascii_[left * 128 + right];
        return others_.find(key(left, right)) != nullptr;
    }

 private:
    static std::uint64_t key(char32_t left, char32_t right) { return static_cast<std::uint64_t>(left) << 32 | right; }
    std::array<bool, 128 * 128> ascii_{};
    flat_map<bool> others_;
};

/// Where a space is put in front of text that does not begin with one of its own.
enum class space_prefix : std::uint8_t {
    never,
    each,    ///< stretch behind special tokens; it may begin with a space of its own
    unless,  ///< likewise, unless it does
    first    ///< only where nothing is before it, unless it does
};

/// What decides which pairs merge: the score of what they make, or ranked pairs, of which one is given.
struct spm_rules {
    std::vector<std::uint32_t> ranks;  ///< by token; empty: `merges` decides
    merge_table merges;
    space_prefix prefix = space_prefix::each;
    bool split_words = false;  ///< no token reaches across the beginning of a space
};

class spm_tokenizer final : public tokenizer_base {
 public:
    spm_tokenizer(vocabulary loaded, std::string pre_name, spm_rules rules);
    std::string_view type_name() const override { return "spm"; }
    void strip_right_of_special();

 protected:
    void encode_fragment(std::string_view text, const fragment_place& place, encode_scratch& scratch,
        std::vector<token_id>& out) const override;

 private:
    void encode_run(std::string_view text, merge_scratch& scratch, std::vector<token_id>& out) const;
    void append_bytes(std::string_view text, std::vector<token_id>& out) const;
    bool wants_space(std::string_view text, const fragment_place& place) const;

    spm_rules rules_;
    string_index index_;  ///< tokens that text can merge into
    neighbour_set neighbours_;
    std::array<token_id, 256> byte_ids_;
    std::size_t longest_ = 0;  ///< bytes of the longest token in index_
};

spm_tokenizer::spm_tokenizer(vocabulary loaded, std::string pre_name, spm_rules rules)
    : tokenizer_base(std::move(loaded), std::move(pre_name)), rules_(std::move(rules)), index_(words().texts.size()) {
    byte_ids_.fill(-1);
    for (token_id id = 0; id < n_tokens(); ++id) {
        const std::string_view bytes = words().pieces[static_cast<std::size_t>(id)];
        if (kind(id) == token_kind::byte) byte_ids_[static_cast<std::uint8_t>(bytes[0])] = id;
        // Control tokens are no merge result, whatever plain text says; user-defined ones have been cut out before.
        if (kind(id) != token_kind::normal && kind(id) != token_kind::unused) continue;
        if (bytes.empty() || !utf8::well_formed(bytes)) continue;
        index_.insert(bytes, id);
        neighbours_.add_all_of(bytes);
        longest_ = std::max(longest_, bytes.size());
    }
}

void spm_tokenizer::strip_right_of_special() {
    std::vector<bool> strips(words().texts.size(), false);
    for (token_id id = 0; id < n_tokens(); ++id) {
        const auto& text = words().texts[static_cast<std::size_t>(id)];
        if (words().trusted_only(id) || kind(id) == token_kind::user_defined)
            strips[static_cast<std::size_t>(id)] = text != "<unk>" && text != "<s>" && text != "<|endoftext|>";
    }
    set_strips_right(std::move(strips));
}

bool spm_tokenizer::wants_space(std::string_view text, const fragment_place& place) const {
    const bool begins_with_space = text.starts_with(' ') || text.starts_with(escaped_space);
    switch (rules_.prefix) {
    case space_prefix::never:
        return false;
    case space_prefix::each:
        return place.after_special;
    case space_prefix::unless:
        return place.after_special && !begins_with_space;
    case space_prefix::first:
        return place.first && !begins_with_space;
    }
    return false;
}

void spm_tokenizer::encode_fragment(
    std::string_view text, const fragment_place& place, encode_scratch& scratch, std::vector<token_id>& out) const {
    auto& unescaped = scratch.text;
    unescaped.clear();
    if (wants_space(text, place)) unescaped += ' ';
    append_unescaped(unescaped, text);
    const std::string_view all = unescaped;
    const auto encode = [&](std::string_view run) {
        scratch.cache.append(run, out,
            [&](std::string_view piece, std::vector<token_id>& ids) { encode_run(piece, scratch.merge, ids); });
    };
    std::size_t begin = 0;
    auto left = utf8::decode(all.data());
    for (std::size_t at = left.length; at < all.size();) {
        const auto right = utf8::decode(all.data() + at);
        if (!neighbours_.has(left.value, right.value) || (rules_.split_words && right.value == ' ')) {
            encode(all.substr(begin, at - begin));
            begin = at;
        }
        at += right.length;
        left = right;
    }
    encode(all.substr(begin));
}

void spm_tokenizer::encode_run(std::string_view text, merge_scratch& scratch, std::vector<token_id>& out) const {
    auto& symbols = scratch.symbols;
    symbols.clear();
    for (std::uint32_t at = 0; at < text.size();) {
        const auto length = utf8::decode(text.data() + at).length;
        symbols.push_back({at, length, index_.find(text.substr(at, length))});
        at += length;
    }
    const auto by_pair = [&](const symbol& left, const symbol& right) {
        return find_merge(rules_.merges, left, right);
    };
    const auto by_score = [&](const symbol& left, const symbol& right) {
        const std::size_t length = left.length + right.length;
        if (length > longest_) return merge_target{};
        const auto id = index_.find(text.substr(left.begin, length));
        return id < 0 ? merge_target{} : merge_target{rules_.ranks[static_cast<std::size_t>(id)], id};
    };
    if (rules_.ranks.empty())
        merge_symbols(scratch, by_pair);
    else
        merge_symbols(scratch, by_score);
    for (const auto& merged : symbols) {
        if (merged.id >= 0) {
            out.push_back(merged.id);
        } else {
            append_bytes(text.substr(merged.begin, merged.length), out);
        }
    }
}

void spm_tokenizer::append_bytes(std::string_view text, std::vector<token_id>& out) const {
    for (const char c : text) {
        const auto id = byte_ids_[static_cast<std::uint8_t>(c)];
        if (id >= 0) {
            out.push_back(id);
        } else {
            // Without byte tokens the character as a whole is unknown.
            if (words().unknown >= 0) out.push_back(words().unknown);
            return;
        }
    }
}

result<spm_rules> load_rules(const model_file& file, const vocabulary& words) {
    spm_rules rules;
    const bool scored = file.type_of("tokenizer.ggml.scores") || !file.type_of("tokenizer.ggml.merges");
    if (scored) {
        TROUPE_TRY(rules.ranks, load_ranks(file, words));
    } else {
        TROUPE_TRY(rules.merges, load_merges(file, words));
    }
    TROUPE_TRY(const auto prefixed, file.get_bool("tokenizer.ggml.add_space_prefix"));
    TROUPE_TRY(const auto mode, file.get_string(tokenizer_keys::space_prefix));
    TROUPE_TRY(const auto split, file.get_bool(tokenizer_keys::split_words));
    rules.split_words = split.value_or(false);
    rules.prefix = prefixed.value_or(true) ? space_prefix::each : space_prefix::never;
    if (mode)
        rules.prefix = mode == "unless"  ? space_prefix::unless
                       : mode == "first" ? space_prefix::first
                       : mode == "each"  ? space_prefix::each
                                         : space_prefix::never;
    return rules;
}

/// Phi-3's files do not say that its special tokens take the white space on their right; only the name tells.
result<bool> is_phi3(const model_file& file) {
    TROUPE_TRY(const auto name, file.get_string("general.name"));
    std::string lowered;
    for (const char c : name.value_or("")) lowered += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    return lowered.find("phi-3") != std::string::npos || lowered.find("phi3") != std::string::npos;
}

}  // namespace

result<std::shared_ptr<const tokenizer>> load_spm(const model_file& file) {
    TROUPE_TRY(
        auto words, load_vocabulary(file, {.piece_of = spm_piece, .adds_bos = true, .bos = 1, .eos = 2, .unknown = 0}));
    for (token_id id = 0; id < words.size(); ++id)
        if (words.kinds[static_cast<std::size_t>(id)] == token_kind::byte &&
            words.pieces[static_cast<std::size_t>(id)].empty())
            return malformed("byte token " + std::to_string(id) + " does not name a byte");
    TROUPE_TRY(auto rules, load_rules(file, words));
    TROUPE_TRY(const auto pre, file.get_string("tokenizer.ggml.pre"));
    TROUPE_TRY(const bool phi3, is_phi3(file));
    const bool scored = !rules.ranks.empty();
    auto loaded =
        std::make_shared<spm_tokenizer>(std::move(words), std::string(pre.value_or("default")), std::move(rules));
    if (phi3 && scored) loaded->strip_right_of_special();
    TROUPE_TRYV(loaded->load_strips(file));
    return std::shared_ptr<const tokenizer>(std::move(loaded));
}

}  // namespace troupe::model
