list(APPEND actor_sources compactor/policy.cpp compactor/compactor_actor.cpp)
