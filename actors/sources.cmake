list(APPEND actor_sources plan.cpp messages.cpp system.cpp engine.cpp engine_control.cpp engine_sessions.cpp state_report.cpp)
