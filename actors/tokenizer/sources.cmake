list(APPEND actor_sources tokenizer/text_model.cpp tokenizer/tokenizer_actor.cpp)
