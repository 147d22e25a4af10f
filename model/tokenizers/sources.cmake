# Text to token ids and back.
list(APPEND model_sources
  tokenizers/utf8.cpp
  tokenizers/char_class.cpp
  tokenizers/pretokenizer.cpp
  tokenizers/special_matcher.cpp
  tokenizers/vocabulary.cpp
  tokenizers/merge_table.cpp
  tokenizers/tokenizer_base.cpp
  tokenizers/bpe.cpp
  tokenizers/spm.cpp
  tokenizers/tokenizer.cpp)
