// The executor of an earlier run: it dies with its front, but what hangs in the device driver may take its time, and
// two executors side by side need the memory twice. So each front leaves word of its child.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "core/result.hpp"

namespace troupe::actors {

/// For an executor of an earlier run to be gone.
inline constexpr std::chrono::milliseconds predecessor_deadline{5000};

/// Writes down which process `pid` is. A file that cannot be written only costs the next start this check.
void record_child(const std::string& file, std::int32_t pid);
void forget_child(const std::string& file);
/// Ends what is written down there, if that very process still lives (pid, start time and boot must agree), and waits
/// until it is gone. errc::not_ready if it is not by the deadline.
result<void> end_predecessor(const std::string& file, std::chrono::milliseconds deadline);

}  // namespace troupe::actors
