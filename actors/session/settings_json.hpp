// Session settings and generation parameters as JSON text: for the store, export and import. Lossless.
#pragma once

#include <string>

#include <boost/json/fwd.hpp>

#include "core/requests.hpp"
#include "core/result.hpp"

namespace troupe::actors {

boost::json::object params_to_object(const generation_params& p);
result<generation_params> params_from_object(const boost::json::object& o);
boost::json::object settings_to_object(const session_settings& s);
/// errc::invalid_request naming the field with a wrong type; unknown fields are ignored.
result<session_settings> settings_from_object(const boost::json::object& o);

std::string settings_to_json(const session_settings& s);
result<session_settings> settings_from_json(const std::string& text);

}  // namespace troupe::actors
