list(APPEND decision_sources supervisor/health.cpp supervisor/policy.cpp supervisor/recovery_log.cpp)
list(APPEND actor_sources supervisor/inline_host.cpp supervisor/process_host.cpp supervisor/supervisor.cpp
  supervisor/supervisor_state.cpp)
