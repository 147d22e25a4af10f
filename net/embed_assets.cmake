# Embeds the page: web/ and the files of Debian's JavaScript packages become one assembly file (.incbin) and a table.
enable_language(ASM)
set(embedded_assets ${CMAKE_CURRENT_BINARY_DIR}/assets.S ${CMAKE_CURRENT_BINARY_DIR}/assets.cpp)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
file(GLOB_RECURSE web_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/web/*)
add_custom_command(OUTPUT ${embedded_assets}
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/scripts/embed_assets.py ${CMAKE_SOURCE_DIR}/web ${CMAKE_CURRENT_BINARY_DIR}
  DEPENDS ${CMAKE_SOURCE_DIR}/scripts/embed_assets.py ${web_files}
  VERBATIM)
set_source_files_properties(${CMAKE_CURRENT_BINARY_DIR}/assets.S PROPERTIES OBJECT_DEPENDS "${web_files}")
