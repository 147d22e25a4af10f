list(APPEND decision_sources store/backlog.cpp store/store_writer.cpp store/data_lock.cpp store/database.cpp)
list(APPEND actor_sources store/store_actor.cpp)
