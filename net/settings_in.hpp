// Session settings and messages from JSON, shared by the WebSocket frames and the session routes.
#pragma once

#include "core/requests.hpp"
#include "net/json_in.hpp"

namespace troupe::net {

/// {model?, system?, temperature?, ...}; also accepts {sampling: {...}} and {params: {...}} for the parameters.
result<session_settings> read_settings(const json_object& o, std::int64_t n_vocab);
/// {content, id?, parent?, params?}.
result<new_message> read_message(const json_object& o, std::int64_t n_vocab);
/// The object under "params", read with the rules of sessions.
result<generation_params> read_message_params(const json_object& o, std::int64_t n_vocab);
/// {title?}: at most limits::max_title_bytes.
result<std::optional<std::string>> read_title(const json_object& o);

}  // namespace troupe::net
