# File formats.
list(APPEND model_sources formats/model_file.cpp formats/assembled_file.cpp formats/json_file.cpp formats/safetensors.cpp
  formats/hf_folder.cpp formats/hf_config.cpp formats/hf_tensors.cpp formats/hf_sources.cpp formats/hf_tokenizer.cpp
  formats/hf_pretokenizer.cpp formats/mapped_file.cpp formats/ggml_types.cpp formats/gguf.cpp formats/gguf_parse.cpp
  formats/atomic_file.cpp formats/gguf_write.cpp)
