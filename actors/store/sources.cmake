list(APPEND actor_sources store/database.cpp store/data_lock.cpp store/store_actor.cpp)
