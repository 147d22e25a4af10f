// One streamed chat completion over HTTP, for `troupe chat --server`.
#pragma once

#include <string>
#include <vector>

#include "core/requests.hpp"
#include "core/result.hpp"

namespace troupe::cli {

/// Prints the answer as it comes; returns all of it. `url`: http://HOST:PORT.
result<std::string> ask_server(
    const std::string& url, const std::string& key, const std::vector<chat_message>& messages);

}  // namespace troupe::cli
