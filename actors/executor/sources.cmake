list(APPEND decision_sources executor/arguments.cpp executor/faults.cpp executor/kv_disk_tier.cpp executor/model_backend.cpp executor/parent_line.cpp
  executor/plan_runner.cpp executor/progress_page.cpp)
list(APPEND actor_sources executor/executor_actor.cpp executor/process.cpp executor/worker.cpp)
