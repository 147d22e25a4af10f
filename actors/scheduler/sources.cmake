list(APPEND actor_sources scheduler/block_pool.cpp scheduler/prefix_cache.cpp scheduler/kv_manager.cpp scheduler/cost_model.cpp
  scheduler/fair_share.cpp scheduler/policy.cpp scheduler/policy_plan.cpp scheduler/policy_results.cpp
  scheduler/policy_faults.cpp scheduler/state_json.cpp scheduler/meter_reader.cpp scheduler/scheduler_actor.cpp)
