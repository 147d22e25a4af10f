list(APPEND actor_sources
  executor/arguments.cpp
  executor/executor_actor.cpp
  executor/faults.cpp
  executor/model_backend.cpp
  executor/parent_line.cpp
  executor/plan_runner.cpp
  executor/process.cpp
  executor/progress_page.cpp
  executor/worker.cpp)
