// The body of `troupe executor`: a child process that owns the device, obeys the inherited socket, and dies with its
// front.
#pragma once

#include "actors/executor/arguments.hpp"
#include "actors/executor/backend.hpp"

namespace troupe::actors {

/// Runs until the socket says stop or ends; returns the exit code (info(code).exit_code when loading failed; the reason
/// went up the socket and to the log). Ignores SIGINT and SIGTERM: the terminal sends them to the whole group, and the
/// front decides.
int run_executor(const executor_arguments& arguments);
/// The same with another backend (tests).
int run_executor(const executor_arguments& arguments, backend_loader load);

}  // namespace troupe::actors
