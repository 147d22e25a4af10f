list(APPEND actor_sources plan.cpp messages.cpp system.cpp)
