list(APPEND decision_sources plan.cpp)
list(APPEND actor_sources engine.cpp engine_control.cpp engine_sessions.cpp messages.cpp state_report.cpp system.cpp)
