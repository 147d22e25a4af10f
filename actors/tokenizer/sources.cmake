list(APPEND actor_sources tokenizer/tokenizer_actor.cpp)
