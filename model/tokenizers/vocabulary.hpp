// The part of a tokenizer that does not depend on how text is cut: tokens, their kinds and bytes, the special ids and
// the set that ends a generation. Internal to tokenizers/.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizers/special_matcher.hpp"
#include "model/tokenizers/tokenizer.hpp"

namespace troupe::model {

struct vocabulary {
    std::vector<std::string> texts;   ///< as the file writes them
    std::vector<std::string> pieces;  ///< the bytes they stand for
    std::vector<token_kind> kinds;    ///< as stored
    token_id bos = -1;
    token_id eos = -1;
    token_id unknown = -1;
    bool add_bos = false;
    bool add_eos = false;
    std::vector<token_id> end_tokens;  ///< ascending
    std::vector<bool> is_end;

    std::int32_t size() const { return static_cast<std::int32_t>(texts.size()); }
    /// Only trusted text may name the token: control and unknown tokens, and whatever starts or ends a text.
    bool trusted_only(token_id id) const;
};

/// What the two families differ in while loading.
struct vocabulary_traits {
    std::string (*piece_of)(std::string_view text, token_kind kind);
    bool adds_bos = false;  ///< when tokenizer.ggml.add_bos_token is absent
    token_id bos = -1;      ///< when the file names none
    token_id eos = -1;
    token_id unknown = -1;
};

result<vocabulary> load_vocabulary(const model_file& file, const vocabulary_traits& traits);

/// Every token that is cut out of raw text. The views point into `words`.
special_matcher make_matcher(const vocabulary& words);

}  // namespace troupe::model
