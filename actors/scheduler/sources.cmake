list(APPEND decision_sources scheduler/block_pool.cpp scheduler/cost_model.cpp scheduler/fair_share.cpp
  scheduler/kv_manager.cpp scheduler/meter_reader.cpp scheduler/policy.cpp scheduler/policy_faults.cpp
  scheduler/policy_plan.cpp scheduler/policy_results.cpp scheduler/prefix_cache.cpp scheduler/state_json.cpp)
list(APPEND actor_sources scheduler/scheduler_actor.cpp)
