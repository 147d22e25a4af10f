// Text with marks -> special tokens and the fragments between them.
#include "model/tokenizers/tokenizer_base.hpp"

#include <algorithm>
#include <limits>

#include "core/check.hpp"
#include "model/tokenizer_keys.hpp"
#include "model/tokenizers/utf8.hpp"

namespace troupe::model {

namespace {

std::size_t skip_white_space(std::string_view text, std::size_t at, std::size_t limit) {
    while (at < limit && (text[at] == ' ' || (text[at] >= '\t' && text[at] <= '\r'))) ++at;
    return at;
}

std::size_t skip_white_space_back(std::string_view text, std::size_t at, std::size_t limit) {
    while (at > limit && (text[at - 1] == ' ' || (text[at - 1] >= '\t' && text[at - 1] <= '\r'))) --at;
    return at;
}

result<std::vector<bool>> load_flags(const model_file& file, const char* key, std::int32_t n_tokens) {
    TROUPE_TRY(const auto ids, file.get_ints(key));
    std::vector<bool> flags;
    if (!ids) return flags;
    flags.resize(static_cast<std::size_t>(n_tokens));
    for (const auto id : *ids) {
        if (id < 0 || id >= n_tokens)
            return fail(errc::model_malformed, std::string("malformed tokenizer: ") + key + " names no token");
        flags[static_cast<std::size_t>(id)] = true;
    }
    return flags;
}

void check_length(std::size_t bytes) {
    CHECK(bytes < std::numeric_limits<std::int32_t>::max(), "requests are bounded far below what offsets can hold");
}

}  // namespace

tokenizer_base::tokenizer_base(vocabulary words, std::string pre_name)
    : words_(std::move(words)), pre_name_(std::move(pre_name)), matcher_(make_matcher(words_)) {}

token_kind tokenizer_base::kind(token_id id) const {
    CHECK(id >= 0 && id < n_tokens());
    return words_.kinds[static_cast<std::size_t>(id)];
}

std::string_view tokenizer_base::piece(token_id id, bool show_control) const {
    const auto token = kind(id);
    if (!show_control && (token == token_kind::control || token == token_kind::unknown)) return {};
    return words_.pieces[static_cast<std::size_t>(id)];
}

bool tokenizer_base::is_end(token_id id) const {
    CHECK(id >= 0 && id < n_tokens());
    return words_.is_end[static_cast<std::size_t>(id)];
}

void tokenizer_base::encode_stretches(
    std::string_view text, std::span<const text_stretch> stretches, std::vector<token_id>& out) const {
    if (text.empty()) return;
    encode_scratch scratch(text.size());
    bool after_special = true;
    std::size_t done = 0;
    const auto encode_until = [&](std::size_t end) {
        if (done == end) return;
        encode_fragment(text.substr(done, end - done), {after_special, done == 0}, scratch, out);
        after_special = false;
    };
    const auto matches = matcher_.find(text, stretches);
    for (std::size_t i = 0; i < matches.size(); ++i) {
        const bool strips_left = !strips_left_.empty() && strips_left_[static_cast<std::size_t>(matches[i].id)];
        encode_until(strips_left ? skip_white_space_back(text, matches[i].begin, done) : matches[i].begin);
        out.push_back(matches[i].id);
        after_special = true;
        done = matches[i].end;
        if (!strips_right_.empty() && strips_right_[static_cast<std::size_t>(matches[i].id)])
            done = skip_white_space(text, done, i + 1 < matches.size() ? matches[i + 1].begin : text.size());
    }
    encode_until(text.size());
}

result<void> tokenizer_base::load_strips(const model_file& file) {
    TROUPE_TRY(strips_left_, load_flags(file, tokenizer_keys::strip_left, n_tokens()));
    TROUPE_TRY(auto right, load_flags(file, tokenizer_keys::strip_right, n_tokens()));
    if (!right.empty()) strips_right_ = std::move(right);
    return {};
}

std::vector<token_id> tokenizer_base::encode(std::string_view text, bool parse_special, bool add_special) const {
    check_length(text.size());
    std::string repaired;
    if (!utf8::well_formed(text)) text = repaired = utf8::replace_ill_formed(text);
    check_length(text.size());
    std::vector<token_id> out;
    if (add_special && words_.add_bos) out.push_back(words_.bos);
    const text_stretch whole{static_cast<std::uint32_t>(text.size()), parse_special};
    encode_stretches(text, std::span(&whole, 1), out);
    if (add_special && words_.add_eos) out.push_back(words_.eos);
    return out;
}

std::vector<token_id> tokenizer_base::encode(std::span<const text_part> parts) const {
    std::string text;
    std::vector<text_stretch> stretches;
    for (const auto& part : parts) {
        if (part.text.empty()) continue;
        text += utf8::replace_ill_formed(part.text);
        check_length(text.size());
        if (stretches.empty() || stretches.back().trusted == part.from_user) stretches.push_back({0, !part.from_user});
        stretches.back().end = static_cast<std::uint32_t>(text.size());
    }
    std::vector<token_id> out;
    encode_stretches(text, stretches, out);
    if (words_.bos < 0) return out;
    const auto text_begin = std::find_if(out.begin(), out.end(), [&](token_id id) { return id != words_.bos; });
    if (text_begin == out.begin() && !words_.add_bos) return out;
    out.erase(out.begin(), text_begin);
    out.insert(out.begin(), words_.bos);
    return out;
}

}  // namespace troupe::model
