list(APPEND decision_sources compactor/policy.cpp compactor/pressure.cpp)
list(APPEND actor_sources compactor/compactor_actor.cpp)
