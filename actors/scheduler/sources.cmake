list(APPEND decision_sources scheduler/block_pool.cpp scheduler/disk_index.cpp scheduler/cost_model.cpp scheduler/fair_share.cpp
  scheduler/kv_manager.cpp scheduler/kv_manager_tiers.cpp scheduler/meter_reader.cpp scheduler/policy.cpp scheduler/policy_faults.cpp scheduler/policy_memory.cpp
  scheduler/policy_plan.cpp scheduler/policy_results.cpp scheduler/policy_tiers.cpp scheduler/prefix_cache.cpp scheduler/state_json.cpp)
list(APPEND actor_sources scheduler/scheduler_actor.cpp)
