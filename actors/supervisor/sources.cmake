list(APPEND actor_sources
  supervisor/health.cpp
  supervisor/inline_host.cpp
  supervisor/policy.cpp
  supervisor/process_host.cpp
  supervisor/supervisor.cpp
  supervisor/supervisor_state.cpp)
