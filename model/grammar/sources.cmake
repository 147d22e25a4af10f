list(APPEND model_sources
  grammar/code_set.cpp grammar/gbnf.cpp grammar/grammar_checks.cpp grammar/automaton.cpp grammar/state_space.cpp
  grammar/token_trie.cpp grammar/constraint.cpp grammar/gbnf_text.cpp grammar/number_ranges.cpp grammar/pattern.cpp
  grammar/schema_shape.cpp grammar/json_schema.cpp)
