option(BILEVEL_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(BILEVEL_APPS "Build the program" ${PROJECT_IS_TOP_LEVEL})
option(BILEVEL_CLAIMS "Let the program put the paper's claims to the test: a quarter of the compile time" ${BILEVEL_APPS})
option(BILEVEL_EXAMPLES "Build the examples; each one is a test" ${PROJECT_IS_TOP_LEVEL})
option(BILEVEL_INSTALL "Provide the install rules" ${PROJECT_IS_TOP_LEVEL})
option(BILEVEL_BENCH "Build the benchmarks" OFF)
option(BILEVEL_OPENMP "Use all cores, by OpenMP" ON)
option(BILEVEL_WERROR "Treat warnings as errors" OFF)
option(BILEVEL_NAN_EIGEN "Fill new Eigen matrices with NaN, for users of the library too" OFF)
option(BILEVEL_ALLOCATION_GUARD "Let Eigen forbid allocations at run time (needs assertions)" OFF)
set(BILEVEL_NGSPICE AUTO CACHE STRING "Settle circuits by ngspice: ON, OFF, or AUTO for where it is found")
set_property(CACHE BILEVEL_NGSPICE PROPERTY STRINGS AUTO ON OFF)
set(BILEVEL_SANITIZE "" CACHE STRING "Sanitisers: address,undefined or thread; empty for none")

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_CXX_EXTENSIONS OFF)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
  endif()
  find_program(BILEVEL_CCACHE ccache)
  mark_as_advanced(BILEVEL_CCACHE)
  if(BILEVEL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    # Precompiled headers can be cached only with these two settings.
    set(CMAKE_CXX_COMPILER_LAUNCHER
        ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${BILEVEL_CCACHE})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      add_compile_options(-fpch-preprocess)
    elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
    endif()
  endif()
endif()

if(BILEVEL_SANITIZE)
  add_compile_options(-fsanitize=${BILEVEL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${BILEVEL_SANITIZE})
  if(BILEVEL_SANITIZE MATCHES "undefined")
    # A third of the compile time; the address sanitiser finds null pointers and sizes too, Eigen asserts alignment.
    add_compile_options(-fno-sanitize=null,object-size,vptr,alignment)
  endif()
endif()

# Warnings for our own code, never for its users.
function(bilevel_own_target target)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
    $<$<BOOL:${BILEVEL_WERROR}>:-Werror>
    $<$<NOT:$<BOOL:${BILEVEL_OPENMP}>>:-Wno-unknown-pragmas>)
endfunction()
