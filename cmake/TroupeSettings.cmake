# Compiler settings every layer shares, and the two functions layers and tests are declared with.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
set(CMAKE_C_FLAGS_RELEASE "-O2 -g1")

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # BASEDIR and NOHASHDIR let another clone of the same sources hit the cache; precompiled headers need sloppiness.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
endif()

find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)

# Two sizes of -Wrestrict are g++ 12's own false alarms on std::string.
add_compile_options(-Wall -Wextra -Werror -fno-strict-aliasing
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict> $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>)
if(TROUPE_FUZZ)
  add_compile_options(-O1 -g1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=null,vptr,alignment,object-size
    -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
endif()
if(TROUPE_SANITIZE)
  # Unoptimized it compiles in two thirds of the time, and runs for twenty seconds more.
  add_compile_options(-O0 -g1 -fsanitize=address,undefined -fno-sanitize=null,vptr,alignment,object-size
    -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()

# What most files include; parsing it once a layer saves a second of processor time a file.
set(common_headers <algorithm> <array> <cmath> <cstdint> <filesystem> <functional> <map> <memory> <optional> <span>
  <string> <string_view> <unordered_map> <variant> <vector> <fmt/format.h>)

# join_sources(TARGET [ALONE...]): with TROUPE_UNITY, five sources at a time are compiled as one; those in ALONE are not,
# as they share private names with their neighbours.
function(join_sources target)
  if(TROUPE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 5)
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# troupe_layer(NAME SOURCES ... LINK ... PCH ... ALONE ...): one static library; PCH lists the layer's precompiled headers.
function(troupe_layer name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK;PCH;ALONE" ${ARGN})
  add_library(troupe_${name} STATIC ${arg_SOURCES})
  target_include_directories(troupe_${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(troupe_${name} PUBLIC ${arg_LINK})
  if(arg_PCH)
    target_precompile_headers(troupe_${name} PRIVATE ${arg_PCH})
  endif()
  join_sources(troupe_${name} ${arg_ALONE})
endfunction()

# Tests spend their time in the libraries, which are optimized; their own files compile in two thirds of the time like this.
set(test_optimization -O0)

# test_headers(LIBRARY OUT): the precompiled headers all tests of one library share. Each test building its own would cost
# 3 s of processor time a binary; between libraries the macros differ, and with them what g++ accepts.
function(test_headers library out)
  set(name ${library}_test_headers)
  if(NOT TARGET ${name})
    set(source ${CMAKE_BINARY_DIR}/test_headers.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "")
    add_executable(${name} ${source})  # not a library: -fPIE is among the flags that must agree
    target_link_libraries(${name} PRIVATE ${library} GTest::gtest GTest::gtest_main)
    target_compile_options(${name} PRIVATE ${test_optimization})
    target_precompile_headers(${name} PRIVATE <gtest/gtest.h> ${common_headers})
  endif()
  set(${out} ${name} PARENT_SCOPE)
endfunction()

# troupe_test(NAME SOURCES ... LINK ... [LABELS ...] [ENV ...] [CASES ...] [ALONE ...]): one GoogleTest binary and its CTest entry.
# With CASES, which are values of its parametrized tests, an entry for each case (and those that begin like it), and one
# for all other tests; an entry that finds no test fails.
function(troupe_test name)
  if(name IN_LIST TROUPE_LEAVE_OUT)
    return()
  endif()
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LINK;LABELS;ENV;CASES;ALONE" ${ARGN})
  foreach(library ${arg_LINK})
    if(library MATCHES "^troupe_" AND NOT TARGET ${library})
      return()  # TROUPE_PLAIN_ONLY leaves this library out
    endif()
  endforeach()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINK} GTest::gtest GTest::gtest_main)
  list(GET arg_LINK 0 library)
  target_compile_options(${name} PRIVATE ${test_optimization})
  test_headers(${library} headers)
  target_precompile_headers(${name} REUSE_FROM ${headers})
  join_sources(${name} ${arg_ALONE})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  set(entries ${name})
  foreach(case ${arg_CASES})
    add_test(NAME ${name}_${case} COMMAND ${name} --gtest_filter=*/${case}*)
    list(APPEND entries ${name}_${case})
  endforeach()
  set(others "*")
  if(arg_CASES)
    list(TRANSFORM arg_CASES REPLACE "(.+)" "*/\\1*" OUTPUT_VARIABLE cases)
    list(JOIN cases ":" cases)
    set(others "*-${cases}")
  endif()
  add_test(NAME ${name} COMMAND ${name} "--gtest_filter=${others}")
  set_tests_properties(${entries} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "unit;${arg_LABELS}"
    FAIL_REGULAR_EXPRESSION "Running 0 tests"
    ENVIRONMENT "TROUPE_SOURCE_DIR=${CMAKE_SOURCE_DIR};TROUPE_TEST_CACHE=$ENV{TROUPE_TEST_CACHE};${arg_ENV}")
endfunction()
