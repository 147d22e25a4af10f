// Byte-level BPE: text is cut by the model's pre-tokenizer, bytes become tokens, and ranked pairs of tokens merge.
#include <array>

#include "model/tokenizers/families.hpp"
#include "model/tokenizers/flat_map.hpp"
#include "model/tokenizers/merge.hpp"
#include "model/tokenizers/piece_cache.hpp"
#include "model/tokenizers/pretokenizer.hpp"
#include "model/tokenizers/tokenizer_base.hpp"
#include "model/tokenizers/utf8.hpp"

namespace troupe::model {

namespace {

error malformed(std::string what) { return fail(errc::model_malformed, "malformed tokenizer: " + std::move(what)); }

/// GPT-2 writes each byte as a printable character: these bytes as themselves, the others from U+0100 on in order.
constexpr bool writes_itself(int byte) {
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}

constexpr int n_shifted = 68;  ///< bytes that do not write themselves

constexpr std::array<std::uint8_t, 256 + n_shifted> make_byte_of_character() {
    std::array<std::uint8_t, 256 + n_shifted> table{};
    std::size_t shifted = 256;
    for (int byte = 0; byte < 256; ++byte)
        table[writes_itself(byte) ? static_cast<std::size_t>(byte) : shifted++] = static_cast<std::uint8_t>(byte);
    return table;
}

constexpr auto byte_of_character = make_byte_of_character();

/// The bytes a token's printable text stands for; characters outside GPT-2's table stand for themselves.
std::string decode_bytes(std::string_view text) {
    if (!utf8::well_formed(text)) return std::string(text);
    std::string bytes;
    for (std::size_t at = 0; at < text.size();) {
        const auto [value, length] = utf8::decode(text.data() + at);
        const bool listed =
            value < byte_of_character.size() && (value >= 256 || writes_itself(static_cast<int>(value)));
        if (listed) {
            bytes += static_cast<char>(byte_of_character[value]);
        } else {
            bytes += text.substr(at, length);
        }
        at += length;
    }
    return bytes;
}

std::string bpe_piece(std::string_view text, token_kind kind) {
    const bool literal = kind == token_kind::control || kind == token_kind::unknown || kind == token_kind::user_defined;
    return literal ? std::string(text) : decode_bytes(text);
}

using merge_table = flat_map<merge_target>;

std::uint64_t pair_key(token_id left, token_id right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

result<merge_table> load_merges(const model_file& file, const vocabulary& words) {
    TROUPE_TRY(const auto merges, file.get_strings("tokenizer.ggml.merges"));
    if (!merges) return malformed("a gpt2 tokenizer needs tokenizer.ggml.merges");
    string_index ids(words.texts.size());
    for (token_id id = 0; id < words.size(); ++id) ids.insert(words.texts[static_cast<std::size_t>(id)], id);
    merge_table table(merges->size());
    std::string joined;
    for (std::size_t rank = 0; rank < merges->size(); ++rank) {
        const auto merge = (*merges)[rank];
        // The first character may itself be a space in vocabularies that do not escape it.
        const auto space = merge.find(' ', 1);
        if (space == std::string_view::npos) return malformed("merge " + std::to_string(rank) + " is no pair");
        joined.assign(merge.substr(0, space)).append(merge.substr(space + 1));
        const auto left = ids.find(merge.substr(0, space));
        const auto right = ids.find(merge.substr(space + 1));
        const auto whole = ids.find(joined);
        if (left < 0 || right < 0 || whole < 0)
            return malformed("merge " + std::to_string(rank) + " names a token the vocabulary does not have");
        // Text could otherwise grow into a control token that nobody may write.
        if (words.trusted_only(whole)) return malformed("merge " + std::to_string(rank) + " makes a control token");
        table.insert(pair_key(left, right), {static_cast<std::uint32_t>(rank), whole});
    }
    return table;
}

class bpe_tokenizer final : public tokenizer_base {
 public:
    bpe_tokenizer(vocabulary words, const pretokenizer& pre, merge_table merges)
        : tokenizer_base(std::move(words), std::string(pre.name)), pre_(pre), merges_(std::move(merges)) {
        byte_ids_.fill(-1);
        if (pre_.ignore_merges) whole_pieces_ = string_index(this->words().texts.size());
        for (token_id id = 0; id < n_tokens(); ++id) {
            if (kind(id) != token_kind::normal) continue;
            const auto bytes = piece(id, true);
            if (bytes.size() == 1) byte_ids_[static_cast<std::uint8_t>(bytes[0])] = id;
            if (pre_.ignore_merges) whole_pieces_.insert(bytes, id);
        }
    }

    std::string_view type_name() const override { return "bpe"; }

 protected:
    void encode_fragment(std::string_view text, bool, std::vector<token_id>& out) const override {
        std::vector<std::uint32_t> ends;
        std::vector<std::uint32_t> spare;
        pre_.split(text, ends, spare);
        merge_scratch scratch;
        piece_cache cache(text.size());
        std::size_t begin = 0;
        for (const auto end : ends) {
            cache.append(text.substr(begin, end - begin), out,
                [&](std::string_view piece, std::vector<token_id>& ids) { encode_piece(piece, scratch, ids); });
            begin = end;
        }
    }

 private:
    void encode_piece(std::string_view piece, merge_scratch& scratch, std::vector<token_id>& out) const {
        if (pre_.ignore_merges) {
            if (const auto id = whole_pieces_.find(piece); id >= 0) return out.push_back(id);
        }
        auto& symbols = scratch.symbols;
        symbols.clear();
        for (std::uint32_t i = 0; i < piece.size(); ++i)
            symbols.push_back({i, 1, byte_ids_[static_cast<std::uint8_t>(piece[i])]});
        merge_symbols(scratch, [this](const symbol& left, const symbol& right) {
            if (left.id < 0 || right.id < 0) return merge_target{};
            const auto* target = merges_.find(pair_key(left.id, right.id));
            return target ? *target : merge_target{};
        });
        for (const auto& merged : symbols) {
            // Some vocabularies lack bytes that well-formed text hardly ever holds.
            const auto id = merged.id >= 0 ? merged.id : words().unknown;
            if (id >= 0) out.push_back(id);
        }
    }

    const pretokenizer& pre_;
    merge_table merges_;
    std::array<token_id, 256> byte_ids_;  ///< -1: the vocabulary has no token for the byte
    string_index whole_pieces_;           ///< with ignore_merges only
};

}  // namespace

result<std::shared_ptr<const tokenizer>> load_bpe(const model_file& file) {
    TROUPE_TRY(const auto name, file.get_string("tokenizer.ggml.pre"));
    if (!name)
        return fail(errc::model_unsupported,
            "the file does not name its pre-tokenizer (tokenizer.ggml.pre), and guessing would spoil the text quietly");
    const auto* pre = pretokenizer::find(*name);
    if (!pre)
        return fail(errc::model_unsupported,
            "unsupported pre-tokenizer '" + std::string(*name) + "'; supported are " + pretokenizer::known_names());
    TROUPE_TRY(auto words, load_vocabulary(file, {.piece_of = bpe_piece, .adds_bos = pre->adds_bos}));
    TROUPE_TRY(auto merges, load_merges(file, words));
    return std::shared_ptr<const tokenizer>(std::make_shared<bpe_tokenizer>(std::move(words), *pre, std::move(merges)));
}

}  // namespace troupe::model
