list(APPEND model_sources
  host_memory.cpp
  kv_memory.cpp
  model.cpp
  model_info.cpp
  weights.cpp
  architectures/builder.cpp
  architectures/dense.cpp
  architectures/deepseek2.cpp
  architectures/gemma2.cpp
  architectures/gemma3.cpp
  architectures/llama.cpp
  architectures/phi3.cpp
  architectures/qwen2.cpp
  architectures/qwen3.cpp
  architectures/registry.cpp
  architectures/rope.cpp
  architectures/step.cpp)
