# File formats.
list(APPEND model_sources formats/model_file.cpp formats/mapped_file.cpp formats/ggml_types.cpp formats/gguf.cpp formats/gguf_parse.cpp
  formats/atomic_file.cpp formats/gguf_write.cpp)
