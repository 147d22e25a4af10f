list(APPEND decision_sources supervisor/health.cpp supervisor/ladder.cpp supervisor/leak_watch.cpp
  supervisor/policy.cpp supervisor/predecessor.cpp supervisor/recovery_log.cpp)
list(APPEND actor_sources supervisor/inline_host.cpp supervisor/process_host.cpp supervisor/supervisor.cpp
  supervisor/supervisor_orders.cpp supervisor/supervisor_state.cpp)
