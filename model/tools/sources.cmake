list(APPEND model_sources tools/call_format.cpp tools/call_parser.cpp)
