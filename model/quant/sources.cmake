# Quantizers and what `troupe quantize` does with them.
list(APPEND model_sources
  quant/quantize_row.cpp quant/blocks_32.cpp quant/blocks_256.cpp quant/file_type.cpp quant/tensor_types.cpp quant/importance.cpp
  quant/quantize_model.cpp)
