// Who holds a TCP port, for the message of a failed bind (Linux: /proc).
#pragma once

#include <cstdint>
#include <string>

namespace troupe::net {

/// " by process 123 (name)", or empty if it cannot be read.
std::string describe_port_holder(std::uint16_t port);

}  // namespace troupe::net
