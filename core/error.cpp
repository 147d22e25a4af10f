#include "core/error.hpp"

#include <array>

#include "core/check.hpp"

namespace troupe {
namespace {

constexpr std::array table{
    error_info{errc::invalid_request, "invalid_request", 400, "invalid_request_error", false, 2},
    error_info{errc::unsupported_parameter, "unsupported_parameter", 400, "invalid_request_error", false, 2},
    error_info{errc::context_length_exceeded, "context_length_exceeded", 400, "invalid_request_error", false, 1},
    error_info{errc::unauthorized, "unauthorized", 401, "authentication_error", false, 1},
    error_info{errc::forbidden, "forbidden", 403, "permission_error", false, 1},
    error_info{errc::not_found, "not_found", 404, "not_found_error", false, 1},
    error_info{errc::model_not_found, "model_not_found", 404, "not_found_error", false, 1},
    error_info{errc::method_not_allowed, "method_not_allowed", 405, "invalid_request_error", false, 1},
    error_info{errc::payload_too_large, "payload_too_large", 413, "invalid_request_error", false, 1},
    error_info{errc::session_busy, "session_busy", 409, "invalid_request_error", true, 1},
    error_info{errc::conflict, "conflict", 409, "invalid_request_error", false, 1},
    error_info{errc::queue_full, "queue_full", 429, "rate_limit_error", true, 1},
    error_info{errc::queue_timeout, "queue_timeout", 503, "unavailable_error", true, 1},
    error_info{errc::not_ready, "not_ready", 503, "unavailable_error", true, 6},
    error_info{errc::shutting_down, "shutting_down", 503, "unavailable_error", true, 1},
    error_info{errc::persistence_degraded, "persistence_degraded", 503, "unavailable_error", true, 1},
    error_info{errc::executor_poisoned, "executor_poisoned", 500, "server_error", false, 1},
    error_info{errc::non_finite_logits, "non_finite_logits", 500, "server_error", false, 1},
    error_info{errc::constraint_failed, "constraint_failed", 500, "server_error", false, 1},
    error_info{errc::out_of_memory, "out_of_memory", 503, "unavailable_error", true, 5},
    error_info{errc::usage, "usage", 400, "invalid_request_error", false, 2},
    error_info{errc::address_in_use, "address_in_use", 500, "server_error", false, 3},
    error_info{errc::model_missing, "model_missing", 500, "server_error", false, 4},
    error_info{errc::model_malformed, "model_malformed", 500, "server_error", false, 4},
    error_info{errc::model_unsupported, "model_unsupported", 500, "server_error", false, 4},
    error_info{errc::io, "io", 500, "server_error", true, 1},
    error_info{errc::internal, "internal", 500, "server_error", false, 1},
};
static_assert(table.size() == static_cast<std::size_t>(errc::count_));

constexpr bool in_order() {
    for (std::size_t i = 0; i < table.size(); ++i)
        if (static_cast<std::size_t>(table[i].code) != i) return false;
    return true;
}
static_assert(in_order(), "table rows must stand in the order of the enum");

}  // namespace

const error_info& info(errc code) {
    const auto i = static_cast<std::size_t>(code);
    CHECK(i < table.size());
    return table[i];
}

errc errc_from_name(std::string_view name) {
    for (const auto& row : table)
        if (row.name == name) return row.code;
    return errc::internal;
}

}  // namespace troupe
