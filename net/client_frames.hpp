// The frames a WebSocket client may send, parsed and checked; no Beast here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "core/requests.hpp"
#include "core/result.hpp"

namespace troupe::net {

struct auth_frame {
    std::string key;
};
struct create_frame {
    std::string title;
    session_settings settings;
};
struct subscribe_frame {
    std::string session;
    std::optional<std::uint64_t> from;
};
struct unsubscribe_frame {
    std::string session;
};
struct message_frame {
    std::string session;
    new_message message;
};
struct regenerate_frame {
    std::string session, message;
    generation_params params;
};
struct edit_frame {
    std::string session, message, content;
    generation_params params;
};
struct stop_frame {
    std::string session;
};
struct ops_frame {
    bool on = false;
};

using client_frame = std::variant<auth_frame, create_frame, subscribe_frame, unsubscribe_frame, message_frame,
    regenerate_frame, edit_frame, stop_frame, ops_frame>;

struct parsed_frame {
    std::string request_id;  ///< echoed in the direct answer, also when the rest is wrong
    result<client_frame> frame;
};

/// Never fails as a whole: what is wrong is an invalid_request in `frame`.
parsed_frame parse_client_frame(std::string_view text, std::int64_t n_vocab);

/// {"type": "error", ...} for a failed frame.
std::string error_frame(const error& e, std::string_view request_id);
/// {"type": "ack"}.
std::string ack_frame(std::string_view request_id);

}  // namespace troupe::net
