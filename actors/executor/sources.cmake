list(APPEND actor_sources
  executor/arguments.cpp
  executor/progress_page.cpp)
