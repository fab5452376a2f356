# Language, warnings and arithmetic rules, in one interface target that every module links.
option(TANDEM_TESTS "Build unit, golden and end-to-end tests" ON)
option(TANDEM_BENCH "Build benchmarks" OFF)
option(TANDEM_WERROR "Treat compiler warnings as errors" OFF)
option(TANDEM_FUZZ "Link tests/fuzz with libFuzzer (clang only); otherwise they replay their corpora" OFF)
set(TANDEM_SANITIZE "" CACHE STRING "Sanitizers for every target: empty, 'address,undefined' or 'thread'")

set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_library(tandem_options INTERFACE)
target_compile_features(tandem_options INTERFACE cxx_std_23)
target_include_directories(tandem_options INTERFACE "${PROJECT_SOURCE_DIR}/src")
target_compile_options(tandem_options INTERFACE
  -Wall -Wextra -Wshadow -Wno-missing-field-initializers
  # "Same answer" (docs/architecture.md): the compiler may not fuse or reorder what the source spells out.
  -ffp-contract=off -fno-fast-math
  -fno-omit-frame-pointer -fvisibility-inlines-hidden -fstack-clash-protection)
target_compile_definitions(tandem_options INTERFACE _GLIBCXX_ASSERTIONS)
if(TANDEM_WERROR)
  target_compile_options(tandem_options INTERFACE -Werror)
endif()
if(TANDEM_SANITIZE)
  # The presets take clang: it compiles these checks in two thirds of g++'s time, and is a second pair of eyes.
  target_compile_options(tandem_options INTERFACE -fsanitize=${TANDEM_SANITIZE} -fno-sanitize-recover=all
    # The checks that are woven in confuse g++'s flow analysis: false there (GCC bug 105562).
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(tandem_options INTERFACE -fsanitize=${TANDEM_SANITIZE})
endif()
