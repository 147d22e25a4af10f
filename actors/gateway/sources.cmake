list(APPEND actor_sources gateway/gateway_actor.cpp gateway/gateway_children.cpp)
