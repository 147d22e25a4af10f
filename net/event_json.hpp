// Events and session state as the JSON of the WebSocket protocol (also the bodies of the session routes).
#pragma once

#include <string>
#include <string_view>

#include <boost/json.hpp>

#include "core/events.hpp"
#include "core/ports.hpp"

namespace troupe::net {

/// One frame: {"type": ..., "session": ..., "seq": ..., ...}; request_id only if not empty.
std::string event_json(const event& e, std::string_view request_id);

boost::json::object session_json(const session_view& s);
boost::json::object message_json(const message_view& m);
/// The fields of a snapshot, without type and session.
boost::json::object snapshot_json(const snapshot_event& s);
boost::json::object params_json(const generation_params& p);
boost::json::object settings_json(const session_settings& s);
boost::json::object usage_json(const usage_counts& u);
/// llama-server's `timings`.
boost::json::object timings_json(const timing_counts& t, const usage_counts& u);
/// Session error: {code, message, retryable, param?, ...}.
boost::json::object session_error_json(const error& e);

}  // namespace troupe::net
