# tandem_module(NAME
#   SOURCES a.cc b.cc        # without tests
#   DEPS base tensor fmt::fmt   # modules by short name, libraries by target
#   PRIVATE_DEPS …           # libraries that do not appear in the module's headers
#   TESTS a_test.cc …        # become one GoogleTest program NAME_test
#   TEST_DEPS …)             # what only the tests need
#
# One static library a module. Which module may use which is checked on the sources by
# scripts/check_layers.py (the floors of docs/architecture.md), not by link order.
function(_tandem_resolve out)
  set(result)
  foreach(dep IN LISTS ARGN)
    if(dep MATCHES "::" OR dep MATCHES "^[/-]")
      list(APPEND result ${dep})
    else()
      list(APPEND result tandem_${dep})
    endif()
  endforeach()
  set(${out} ${result} PARENT_SCOPE)
endfunction()

# Under sanitizers half of the time goes into compiling: what no test waits for is not optimized there.
set(TANDEM_BUSY_MODULES base system tensor quant text kernels kv model engine)
function(_tandem_spare_optimizer target)
  if(TANDEM_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

function(tandem_module name)
  cmake_parse_arguments(M "" "" "SOURCES;DEPS;PRIVATE_DEPS;TESTS;TEST_DEPS" ${ARGN})
  _tandem_resolve(deps ${M_DEPS})
  _tandem_resolve(private_deps ${M_PRIVATE_DEPS})
  if(M_SOURCES)
    add_library(tandem_${name} STATIC ${M_SOURCES})
    target_link_libraries(tandem_${name} PUBLIC tandem_options ${deps} PRIVATE ${private_deps})
    if(NOT name IN_LIST TANDEM_BUSY_MODULES)
      _tandem_spare_optimizer(tandem_${name})
    endif()
  else()
    add_library(tandem_${name} INTERFACE)
    target_link_libraries(tandem_${name} INTERFACE tandem_options ${deps})
  endif()
  if(TANDEM_TESTS AND M_TESTS)
    tandem_test(${name}_test SOURCES ${M_TESTS} DEPS ${name} ${M_TEST_DEPS} LABELS unit ${name})
  endif()
endfunction()

# tandem_test(NAME SOURCES … DEPS … LABELS …): a GoogleTest program; each of its tests is a ctest entry.
function(tandem_test name)
  cmake_parse_arguments(T "" "" "SOURCES;DEPS;LABELS" ${ARGN})
  _tandem_resolve(deps ${T_DEPS})
  add_executable(${name} ${T_SOURCES})
  _tandem_spare_optimizer(${name})
  target_link_libraries(${name} PRIVATE tandem_options ${deps} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE TANDEM_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  include(GoogleTest)
  # One label, "golden-slow": gtest_discover_tests keeps the first of a list. ctest -L takes a part of it.
  string(REPLACE ";" "-" label "${T_LABELS}")
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" PROPERTIES TIMEOUT 600 LABELS "${label}")
endfunction()
