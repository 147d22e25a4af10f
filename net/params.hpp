// Generation parameters from JSON: names, types and ranges; what is known but not built is refused.
#pragma once

#include "core/requests.hpp"
#include "core/result.hpp"
#include "net/json_in.hpp"

namespace troupe::net {

struct param_rules {
    double max_temperature = 5;          ///< 2 on OpenAI routes
    std::int64_t n_vocab = 0;            ///< 0: ids are checked for sign only
    bool allow_zero_max_tokens = false;  ///< echo
    bool logprobs_is_count = false;      ///< /v1/completions: how many; else true or false beside top_logprobs
};

/// Reads the sampling and stopping fields of `o`; other fields are left alone.
result<generation_params> read_params(const json_object& o, const param_rules& rules);
/// unsupported_parameter for fields whose effect is not built yet; tools, too, unless the caller reads them.
result<void> refuse_unbuilt(const json_object& o, bool reads_tools = false);
/// `n` (llama-server: n_cmpl), 1 if absent. unsupported_parameter for a `best_of` that is not the same.
result<std::int32_t> read_choices(const json_object& o);
/// unsupported_parameter for n > 1: where there is one answer.
result<void> refuse_choices(const json_object& o);
/// Types of known fields that change nothing here.
result<void> check_ignored(const json_object& o);

}  // namespace troupe::net
