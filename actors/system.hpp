// How Troupe's CAF actor systems are set up: front and executor alike, and the deterministic variant for tests.
#pragma once

#include <cstddef>

#include <caf/actor_system_config.hpp>

namespace troupe::actors {

struct system_options {
    std::size_t threads = 2;     ///< CAF's workers
    bool network = true;         ///< load the middleman
    bool deterministic = false;  ///< one thread, virtual time: the test coordinator (tests/support/actor_fixture.hpp)
};

/// Policy `sharing` (the default policy burns 1.8 s of CPU time a minute when idle), no INI file, no command line,
/// every message type registered.
class system_config : public caf::actor_system_config {
 public:
    explicit system_config(const system_options& options = {});
};

}  // namespace troupe::actors
