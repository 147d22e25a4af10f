// What a client can ask for, after the wire format is gone: plain structs, every range already checked by net.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace troupe {

/// A bias that bans: finite, so that it can be stored as JSON; no logit outweighs it.
inline constexpr double ban_bias = -1e30;

/// Parameters of one generation as given; absent means "ask the next level": request > session > config > built in.
struct generation_params {
    std::optional<double> temperature, top_p, min_p, typical_p, repeat_penalty, presence_penalty, frequency_penalty;
    std::optional<double> top_n_sigma, xtc_probability, xtc_threshold, dynatemp_range, dynatemp_exponent;
    std::optional<double> dry_multiplier, dry_base, mirostat_tau, mirostat_eta;
    std::optional<std::int32_t> top_k, penalty_last_n, min_keep;
    std::optional<std::int32_t> dry_allowed_length, dry_penalty_last_n;
    std::optional<std::int32_t> mirostat;  ///< 0 or 2
    std::optional<std::vector<std::string>> dry_sequence_breakers;
    std::optional<std::int64_t> seed;        ///< negative = random
    std::optional<std::int64_t> max_tokens;  ///< absent: to the end of the context
    std::optional<std::int64_t> min_tokens;
    std::optional<std::vector<std::string>> stop;
    std::optional<std::vector<std::int32_t>> stop_token_ids;
    std::optional<std::vector<std::pair<std::int32_t, double>>> logit_bias;
    std::optional<std::vector<std::pair<std::string, double>>> logit_bias_text;  ///< for every token of a text
    std::optional<bool> ignore_eos;
    std::optional<std::int32_t> n_logprobs;   ///< of the chosen token and this many best ones
    std::optional<bool> post_sampling_probs;  ///< those after the sampling chain, in place of the raw distribution's
    /// What the answer must be: GBNF, or a JSON schema (empty: expressly anything). At most one is given.
    std::optional<std::string> grammar, json_schema;
    std::optional<std::string> format_field;  ///< the request's field that gave it, for errors
    std::string template_kwargs;              ///< JSON object of extra template variables; empty: none
    bool operator==(const generation_params&) const = default;
};

/// f(name, pointer to member) for every optional parameter; the names are those of stored settings.
template <class F> void each_parameter(F&& f) {
    using g = generation_params;
    f("temperature", &g::temperature);
    f("top_p", &g::top_p);
    f("min_p", &g::min_p);
    f("typical_p", &g::typical_p);
    f("repeat_penalty", &g::repeat_penalty);
    f("presence_penalty", &g::presence_penalty);
    f("frequency_penalty", &g::frequency_penalty);
    f("top_n_sigma", &g::top_n_sigma);
    f("xtc_probability", &g::xtc_probability);
    f("xtc_threshold", &g::xtc_threshold);
    f("dynatemp_range", &g::dynatemp_range);
    f("dynatemp_exponent", &g::dynatemp_exponent);
    f("dry_multiplier", &g::dry_multiplier);
    f("dry_base", &g::dry_base);
    f("mirostat_tau", &g::mirostat_tau);
    f("mirostat_eta", &g::mirostat_eta);
    f("top_k", &g::top_k);
    f("penalty_last_n", &g::penalty_last_n);
    f("min_keep", &g::min_keep);
    f("dry_allowed_length", &g::dry_allowed_length);
    f("dry_penalty_last_n", &g::dry_penalty_last_n);
    f("mirostat", &g::mirostat);
    f("dry_sequence_breakers", &g::dry_sequence_breakers);
    f("seed", &g::seed);
    f("max_tokens", &g::max_tokens);
    f("min_tokens", &g::min_tokens);
    f("stop", &g::stop);
    f("stop_token_ids", &g::stop_token_ids);
    f("logit_bias", &g::logit_bias);
    f("logit_bias_text", &g::logit_bias_text);
    f("ignore_eos", &g::ignore_eos);
    f("n_logprobs", &g::n_logprobs);
    f("post_sampling_probs", &g::post_sampling_probs);
    f("grammar", &g::grammar);
    f("json_schema", &g::json_schema);
    f("format_field", &g::format_field);
}

/// `over` where it says something, else `base`.
generation_params overlay(const generation_params& base, const generation_params& over);

struct chat_message {
    std::string role;  ///< system, developer, user, assistant, tool
    std::string content;
    std::string extra;  ///< JSON object with further keys for the template (name, tool_calls, ...); empty: none
    bool operator==(const chat_message&) const = default;
};

struct session_settings {
    std::string model;   ///< empty: the default model
    std::string system;  ///< system prompt; empty: none
    generation_params params;
    bool operator==(const session_settings&) const = default;
};

/// POST /v1/sessions/{id}/messages, ws `message`.
struct new_message {
    std::string id;  ///< client-made, unique in the session; empty: the server makes one
    std::string content;
    std::optional<std::string> parent;  ///< absent: the current leaf; empty: a new root
    generation_params params;
};

/// How the rows of an input become one embedding.
enum class pooling : std::uint8_t { none, mean, last };

/// A generation of the OpenAI routes: not stored, unless session_id names a stored session.
struct completion_request {
    enum class kind : std::uint8_t { chat, text, embedding };
    kind what = kind::chat;
    std::string model;
    std::vector<chat_message> messages;  ///< chat
    std::string prompt;                  ///< text or embedding, if prompt_ids is absent
    std::optional<std::vector<std::int32_t>> prompt_ids;
    bool echo = false;
    bool prompt_only = false;  ///< nothing is generated: max_tokens may be 0
    bool token_ids = false;    ///< deltas name their tokens
    std::string tools;         ///< chat: OpenAI's list of tools as JSON; empty: none
    std::string tool_choice;   ///< auto, required or the name of a tool, where there are tools
    bool parallel_tool_calls = true;
    generation_params params;
    std::string session_id;
    std::string client_key;                ///< fairness and queue limits are per client
    std::int32_t choice = 0;               ///< which of n answers to one prompt: choices draw differently from one seed
    pooling pool = pooling::none;          ///< embedding
    std::string prompt_name = "messages";  ///< what the wire format calls the prompt, for errors
};

/// model_not_found for a name that is not the loaded model's.
error no_such_model(const std::string& name);

}  // namespace troupe
