// The socketpair between front and executor: one JSON object a line. Down: the cookie and the epoch, then "stop". Up:
// ready, failed, fired. End of file means that the other side is gone.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "core/result.hpp"

namespace troupe::actors {

struct line_message {
    std::string event;               ///< start, stop; ready, failed, fired
    std::string cookie;              ///< start
    std::uint64_t epoch = 0;         ///< start
    std::uint16_t port = 0;          ///< ready
    std::int32_t pid = 0;            ///< ready
    std::string build, numerics_id;  ///< ready
    error err;                       ///< failed
    std::string fault;               ///< fired
};

/// One line, the newline included.
std::string encode_line(const line_message& m);
/// errc::internal if it is no such line.
result<line_message> decode_line(std::string_view line);

/// Cuts what comes in into lines. A line longer than 64 KiB is an error of the other side: false from then on.
class line_reader {
 public:
    bool feed(std::string_view bytes, const std::function<void(std::string_view)>& line);

 private:
    std::string rest_;
    bool broken_ = false;
};

/// Writes all of it; false if the other side is gone. Interrupted and short writes are continued.
bool write_all(int fd, std::string_view bytes);

}  // namespace troupe::actors
