list(APPEND model_sources
  templates/text.cpp templates/value.cpp templates/lexer.cpp templates/parser_expressions.cpp
  templates/parser_statements.cpp templates/print.cpp templates/format.cpp templates/strings.cpp templates/operators.cpp
  templates/interpreter.cpp templates/expressions.cpp templates/tests.cpp templates/text_filters.cpp
  templates/list_filters.cpp templates/string_methods.cpp templates/builtins.cpp templates/chat_template.cpp
  templates/chat_context.cpp
  templates/load_chat_format.cpp)
