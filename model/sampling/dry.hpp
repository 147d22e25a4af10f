// DRY ("don't repeat yourself", by p-e-w for text-generation-webui): a token that would go on with a repetition of the
// text's end loses logit, the more the longer the repetition is.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/tokenizers/tokenizer.hpp"

namespace troupe::model {

struct dry_params {
    float multiplier = 0;             ///< 0: off
    float base = 1.75f;               ///< below 1: off
    std::int32_t allowed_length = 2;  ///< repetitions shorter than this cost nothing
    std::int32_t last_n = 64;         ///< window of prompt + output; 0: off, -1: all of it
    /// Token sequences that no repetition reaches across, ascending, none of them empty.
    std::vector<std::vector<token_id>> breakers;
    bool operator==(const dry_params&) const = default;
    bool active() const { return multiplier != 0 && base >= 1 && last_n != 0; }
};

/// Lowers `logits` [n_vocab]. Ids out of range in `history` are never penalized. Scratch: `longest` [n_vocab] must be
/// zeros and is again afterwards; `overlap` grows to the window.
void apply_dry(std::span<float> logits, const dry_params& params, std::span<const token_id> history,
    std::span<std::int32_t> longest, std::vector<std::int32_t>& overlap);

/// Sequences of tokens that spell a breaker: every token that contains it, and every token whose end begins it,
/// followed by the tokens of the rest. Ascending. Reads the whole vocabulary.
std::vector<std::vector<token_id>> dry_breakers(const tokenizer& vocabulary, std::span<const std::string> texts);

}  // namespace troupe::model
