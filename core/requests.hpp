// What a client can ask for, after the wire format is gone: plain structs, every range already checked by net.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// Parameters of one generation as given; absent means "ask the next level": request > session > config > built in.
struct generation_params {
    std::optional<double> temperature, top_p, min_p, typical_p, repeat_penalty, presence_penalty, frequency_penalty;
    std::optional<std::int32_t> top_k, penalty_last_n;
    std::optional<std::int64_t> seed;        ///< negative = random
    std::optional<std::int64_t> max_tokens;  ///< absent: to the end of the context
    std::optional<std::int64_t> min_tokens;
    std::optional<std::vector<std::string>> stop;
    std::optional<std::vector<std::int32_t>> stop_token_ids;
    std::optional<std::vector<std::pair<std::int32_t, double>>> logit_bias;
    std::optional<bool> ignore_eos;
    std::optional<std::int32_t> n_logprobs;  ///< of the chosen token and this many best ones
    std::string template_kwargs;             ///< JSON object of extra template variables; empty: none
    bool operator==(const generation_params&) const = default;
};

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

/// A generation of the OpenAI routes: not stored, unless session_id names a stored session.
struct completion_request {
    enum class kind : std::uint8_t { chat, text };
    kind what = kind::chat;
    std::string model;
    std::vector<chat_message> messages;  ///< chat
    std::string prompt;                  ///< text, if prompt_ids is absent
    std::optional<std::vector<std::int32_t>> prompt_ids;
    bool echo = false;
    generation_params params;
    std::string session_id;
    std::string client_key;   ///< fairness and queue limits are per client
    std::int32_t choice = 0;  ///< which of n answers to one prompt: choices draw differently from one seed
};

}  // namespace troupe
