#include "core/requests.hpp"

namespace troupe {

generation_params overlay(const generation_params& base, const generation_params& over) {
    generation_params r = base;
    const auto take = [](auto& to, const auto& from) {
        if (from) to = from;
    };
    take(r.temperature, over.temperature);
    take(r.top_p, over.top_p);
    take(r.min_p, over.min_p);
    take(r.typical_p, over.typical_p);
    take(r.repeat_penalty, over.repeat_penalty);
    take(r.presence_penalty, over.presence_penalty);
    take(r.frequency_penalty, over.frequency_penalty);
    take(r.top_k, over.top_k);
    take(r.penalty_last_n, over.penalty_last_n);
    take(r.seed, over.seed);
    take(r.max_tokens, over.max_tokens);
    take(r.min_tokens, over.min_tokens);
    take(r.stop, over.stop);
    take(r.stop_token_ids, over.stop_token_ids);
    take(r.logit_bias, over.logit_bias);
    take(r.ignore_eos, over.ignore_eos);
    take(r.n_logprobs, over.n_logprobs);
    if (!over.template_kwargs.empty()) r.template_kwargs = over.template_kwargs;
    return r;
}

}  // namespace troupe
