// The target of a request: path and query, percent-decoded.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace troupe::net {

struct url_target {
    std::string path;
    std::map<std::string, std::string> query;
};

/// Malformed escapes stay as they are written.
url_target split_target(std::string_view target);

}  // namespace troupe::net
