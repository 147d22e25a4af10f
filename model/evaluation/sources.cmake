list(APPEND model_sources evaluation/logits_file.cpp evaluation/divergence.cpp)
