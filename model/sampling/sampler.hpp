// Choosing the next token from logits. Stateless but for what is passed in: the random numbers are counter-based (keyed
// by seed, choice, position and draw), so a run that is resumed elsewhere draws the same.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "model/sampling/dry.hpp"
#include "model/sampling/token_mask.hpp"
#include "model/tokenizers/tokenizer.hpp"

namespace troupe::model {

/// Resolved parameters of one generation (ranges are checked where requests are parsed). Semantics and order of the
/// chain are mainline llama.cpp's: logit_bias, penalties, DRY, top_n_sigma, top_k, typical_p, top_p, min_p, XTC,
/// temperature, draw; with mirostat: logit_bias, temperature, mirostat, draw.
struct sampling_params {
    float temperature = 0.8f;          ///< <= 0: the best of what the chain leaves (lowest id wins ties)
    std::int32_t top_k = 40;           ///< <= 0: off
    float top_p = 0.95f;               ///< >= 1: off
    float min_p = 0.05f;               ///< <= 0: off
    float typical_p = 1.0f;            ///< >= 1: off
    float top_n_sigma = -1.0f;         ///< <= 0: off
    std::int32_t min_keep = 0;         ///< candidates that typical_p, top_p, min_p and XTC leave at least
    float repeat_penalty = 1.0f;       ///< 1: off
    std::int32_t penalty_last_n = 64;  ///< window of prompt + output; 0: off, -1: the whole context
    float frequency_penalty = 0.0f;
    float presence_penalty = 0.0f;
    float xtc_probability = 0.0f;  ///< 0: off
    float xtc_threshold = 0.1f;    ///< > 0.5: off
    float dynatemp_range = 0.0f;   ///< 0: off
    float dynatemp_exponent = 1.0f;
    std::int32_t mirostat = 0;  ///< 0: off, 2: version 2
    float mirostat_tau = 5.0f;  ///< wanted surprise, bits
    float mirostat_eta = 0.1f;  ///< learning rate
    dry_params dry;
    std::vector<std::pair<token_id, float>> logit_bias;
    std::uint64_t seed = 0;
    std::int32_t choice = 0;              ///< which of n answers
    std::int32_t n_logprobs = -1;         ///< -1: none; k: of the chosen token and the k best
    bool post_sampling_logprobs = false;  ///< of what the chain left, in place of the unmodified distribution
    bool operator==(const sampling_params&) const = default;

    /// Where mirostat's mu begins.
    float first_mu() const { return 2 * mirostat_tau; }
};

struct token_logprob {
    token_id id = 0;
    float logprob = 0;
};

struct sampled_token {
    token_id id = 0;
    float logprob = 0;               ///< log softmax at id; only if n_logprobs >= 0
    std::vector<token_logprob> top;  ///< best first
    float mu = 0;                    ///< mirostat: for the next token
};

namespace chain {
struct candidate_list;
struct workspace;
}  // namespace chain

/// Working memory of one sampler, reserved for n_vocab candidates; reuse it, one a thread.
class sampler {
 public:
    explicit sampler(std::int32_t n_vocab);
    ~sampler();
    sampler(sampler&&) noexcept;

    /// `logits` [n_vocab], finite but for banned entries (-inf); not modified. `history`: prompt + output so far,
    /// oldest first. `position`: index of the token to be chosen, counted from the start of the sequence. `mu`: what
    /// the token before gave (params.first_mu() for the first); only mirostat reads it. Ids out of range in history and
    /// logit_bias are ignored. If everything is banned, the best of the raw logits is chosen. `allowed` (some of it):
    /// the others are banned before the chain begins, so what is drawn is the exact distribution under that condition;
    /// log-probabilities of the unmodified distribution do not see it.
    sampled_token sample(std::span<const float> logits, const sampling_params& params,
        std::span<const token_id> history, std::int64_t position, float mu = 0, const token_mask* allowed = nullptr);
    /// Log-probability of `id` in the unmodified distribution, and of the n best.
    sampled_token score(std::span<const float> logits, token_id id, std::int32_t n);

    struct candidate {
        token_id id;
        float logit;
    };
    /// The chain without the draw: candidates with non-zero weight by (probability descending, id ascending), and their
    /// probabilities. `xtc_draw` in [0, 1) stands for XTC's random number.
    std::vector<std::pair<token_id, float>> distribution(std::span<const float> logits, const sampling_params& params,
        std::span<const token_id> history, float mu = 0, float xtc_draw = 0);

 private:
    std::span<const float> adjust(std::span<const float> logits, const sampling_params& params,
        std::span<const token_id> history, const token_mask* allowed);
    void penalize(const sampling_params& params, std::span<const token_id> history);
    void apply(std::span<const float> logits, const sampling_params& params, std::span<const token_id> history,
        float mu, float xtc_draw, const token_mask* allowed);
    std::size_t draw(float u);
    void add_logprobs(std::span<const float> logits, std::int32_t n, sampled_token& token);
    void add_post_sampling_logprobs(std::int32_t n, sampled_token& token);
    std::unique_ptr<chain::candidate_list> list_;
    std::unique_ptr<chain::workspace> work_;
    std::vector<float> adjusted_;       ///< logits after bias and penalties
    std::vector<std::int32_t> counts_;  ///< of each id in a window; all zero between calls
    std::vector<std::int32_t> overlap_;
};

/// Uniform in [0, 1) from Philox4x32-10 (Salmon et al., SC 2011), 24 bits.
float uniform(std::uint64_t seed, std::uint32_t choice, std::uint64_t position, std::uint32_t draw);

}  // namespace troupe::model
