// The page's files, embedded at build time from web/ and Debian's JavaScript packages.
#pragma once

#include <string_view>

namespace troupe::net {

struct asset {
    std::string_view path;  ///< "/app.js"
    std::string_view type;
    std::string_view bytes;
    std::string_view etag;  ///< quoted
};

/// Null if there is no such file.
const asset* find_asset(std::string_view path);

}  // namespace troupe::net
