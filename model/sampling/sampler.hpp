// Choosing the next token from logits. Stateless but for what is passed in: the random numbers are counter-based (keyed
// by seed, choice, position and draw), so a run that is resumed elsewhere draws the same.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "model/tokenizers/tokenizer.hpp"

namespace troupe::model {

/// Resolved parameters of one generation (ranges are checked where requests are parsed). Semantics and order of the
/// chain: logit_bias, penalties, top_k, top_p, min_p, temperature, draw (mainline llama.cpp's order).
struct sampling_params {
    float temperature = 0.8f;          ///< <= 0: greedy (lowest id wins ties)
    std::int32_t top_k = 40;           ///< <= 0: off
    float top_p = 0.95f;               ///< >= 1: off
    float min_p = 0.05f;               ///< <= 0: off
    float repeat_penalty = 1.0f;       ///< 1: off
    std::int32_t penalty_last_n = 64;  ///< window of prompt + output; 0: off, -1: the whole context
    float frequency_penalty = 0.0f;
    float presence_penalty = 0.0f;
    std::vector<std::pair<token_id, float>> logit_bias;
    std::uint64_t seed = 0;
    std::int32_t choice = 0;       ///< which of n answers
    std::int32_t n_logprobs = -1;  ///< -1: none; k: of the chosen token and the k best (of the unmodified distribution)
    bool operator==(const sampling_params&) const = default;
};

struct token_logprob {
    token_id id = 0;
    float logprob = 0;
};

struct sampled_token {
    token_id id = 0;
    float logprob = 0;               ///< log softmax of the raw logits at id; only if n_logprobs >= 0
    std::vector<token_logprob> top;  ///< best first
};

/// Working memory of one sampler, reserved for n_vocab candidates; reuse it, one a thread.
class sampler {
 public:
    explicit sampler(std::int32_t n_vocab);

    /// `logits` [n_vocab], finite but for banned entries (-inf); not modified. `history`: prompt + output so far,
    /// oldest first. `position`: index of the token to be chosen, counted from the start of the sequence. Ids out of
    /// range in history and logit_bias are ignored. If everything is banned, the best of the raw logits is chosen.
    sampled_token sample(std::span<const float> logits, const sampling_params& params,
        std::span<const token_id> history, std::int64_t position);

    struct candidate {
        token_id id;
        float logit;
    };
    /// The chain without the draw: candidates with non-zero weight by (probability descending, id ascending), and their
    /// probabilities. For tests and post-sampling log-probabilities.
    std::vector<std::pair<token_id, float>> distribution(
        std::span<const float> logits, const sampling_params& params, std::span<const token_id> history);

 private:
    std::span<const float> adjust(
        std::span<const float> logits, const sampling_params& params, std::span<const token_id> history);
    void penalize(const sampling_params& params, std::span<const token_id> history);
    void apply(std::span<const float> logits, const sampling_params& params, std::span<const token_id> history);
    token_id draw(float u);
    void add_logprobs(std::span<const float> logits, std::int32_t n, sampled_token& token);
    std::vector<candidate> candidates_;
    std::vector<float> probabilities_;  ///< weights of candidates_, not normalized
    std::vector<float> adjusted_;       ///< logits after bias and penalties
    std::vector<std::int32_t> counts_;  ///< of each id in the penalty window; all zero between calls
};

/// Uniform in [0, 1) from Philox4x32-10 (Salmon et al., SC 2011), 24 bits.
float uniform(std::uint64_t seed, std::uint32_t choice, std::uint64_t position, std::uint32_t draw);

}  // namespace troupe::model
