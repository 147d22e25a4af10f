// Byte-level BPE: text is cut by the model's pre-tokenizer, bytes become tokens, and ranked pairs of tokens merge.
#include <array>

#include "model/tokenizer_keys.hpp"
#include "model/tokenizers/families.hpp"
#include "model/tokenizers/flat_map.hpp"
#include "model/tokenizers/merge_table.hpp"
#include "model/tokenizers/pretokenizer.hpp"
#include "model/tokenizers/tokenizer_base.hpp"
#include "model/tokenizers/utf8.hpp"

namespace troupe::model {

namespace {

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

class bpe_tokenizer final : public tokenizer_base {
 public:
    bpe_tokenizer(vocabulary words, const pretokenizer& pre, bool nfc, merge_table merges)
        : tokenizer_base(std::move(words), std::string(pre.name)), pre_(pre), nfc_(nfc), merges_(std::move(merges)) {
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
    void encode_fragment(std::string_view text, const fragment_place&, encode_scratch& scratch,
        std::vector<token_id>& out) const override {
        const std::string composed = nfc_ ? utf8::compose(text) : std::string();
        if (nfc_) text = composed;
        pre_.split(text, scratch.ends, scratch.spare_ends);
        std::size_t begin = 0;
        for (const auto end : scratch.ends) {
            scratch.cache.append(text.substr(begin, end - begin), out,
                [&](std::string_view piece, std::vector<token_id>& ids) { encode_piece(piece, scratch.merge, ids); });
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
        merge_symbols(
            scratch, [this](const symbol& left, const symbol& right) { return find_merge(merges_, left, right); });
        for (const auto& merged : symbols) {
            // Some vocabularies lack bytes that well-formed text hardly ever holds.
            const auto id = merged.id >= 0 ? merged.id : words().unknown;
            if (id >= 0) out.push_back(id);
        }
    }

    pretokenizer pre_;
    bool nfc_;  ///< text is composed (Unicode NFC) before it is cut
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
    TROUPE_TRY(const auto nfc, file.get_bool(tokenizer_keys::nfc));
    TROUPE_TRY(const auto whole, file.get_bool(tokenizer_keys::ignore_merges));
    pretokenizer rules = *pre;
    rules.ignore_merges = whole.value_or(pre->ignore_merges);
    auto loaded = std::make_shared<bpe_tokenizer>(std::move(words), rules, nfc.value_or(false), std::move(merges));
    TROUPE_TRYV(loaded->load_strips(file));
    return std::shared_ptr<const tokenizer>(std::move(loaded));
}

}  // namespace troupe::model
