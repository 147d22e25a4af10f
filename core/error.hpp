// The error codes the outside can meet, each with its wire name, HTTP status, OpenAI type and retryability (one table).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

enum class errc : std::uint8_t {
    // requests
    invalid_request,
    unsupported_parameter,
    context_length_exceeded,
    unauthorized,
    forbidden,
    not_found,
    model_not_found,
    method_not_allowed,
    payload_too_large,
    session_busy,
    conflict,
    queue_full,
    queue_timeout,
    // engine state
    not_ready,
    shutting_down,
    persistence_degraded,
    executor_poisoned,
    non_finite_logits,
    constraint_failed,
    out_of_memory,
    // start-up
    usage,
    address_in_use,
    model_missing,
    model_malformed,
    model_unsupported,
    io,
    internal,
    count_
};

struct error_info {
    errc code;
    std::string_view name;  ///< `error.code` on the wire
    int http_status;
    std::string_view openai_type;  ///< `error.type` on the wire
    bool retryable;
    int exit_code;  ///< of the command line, when this error ends it
};

/// The table row of a code. Never fails.
const error_info& info(errc code);
/// The code with this wire name; errc::internal if there is none.
errc errc_from_name(std::string_view name);

struct error {
    errc code = errc::internal;
    std::string message;               ///< a sentence for a person; never prompt text
    std::string param;                 ///< the request field, option or tensor at fault; may be empty
    std::int64_t retry_after_ms = 0;   ///< queue_full, not_ready
    std::int64_t n_prompt_tokens = 0;  ///< context_length_exceeded
    std::int64_t n_ctx = 0;            ///< context_length_exceeded

    bool operator==(const error&) const = default;
};

}  // namespace troupe
