list(APPEND actor_sources tokenizer/output_rules.cpp tokenizer/text_model.cpp tokenizer/tokenizer_actor.cpp)
