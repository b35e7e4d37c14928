option(BILEVEL_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(BILEVEL_APPS "Build the program" ${PROJECT_IS_TOP_LEVEL})
option(BILEVEL_CLAIMS "Build bilevel-paper too, which puts the paper's claims to the test" ${BILEVEL_APPS})
option(BILEVEL_EXAMPLES "Build the examples; each one is a test" ${PROJECT_IS_TOP_LEVEL})
option(BILEVEL_INSTALL "Provide the install rules" ${PROJECT_IS_TOP_LEVEL})
option(BILEVEL_BENCH "Build the benchmarks" OFF)
option(BILEVEL_UNITY "Compile a room as one unit: half the time from scratch, more after a change" ${PROJECT_IS_TOP_LEVEL})
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

if(PROJECT_IS_TOP_LEVEL AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(--param=ggc-min-expand=1000 --param=ggc-min-heapsize=1000000)  # collects garbage less often
endif()
if(BILEVEL_SANITIZE)
  add_compile_options(-fsanitize=${BILEVEL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${BILEVEL_SANITIZE})
  if(BILEVEL_SANITIZE MATCHES "undefined")
    # A third of the compile time; the address sanitiser finds null pointers and sizes too, Eigen asserts alignment.
    add_compile_options(-fno-sanitize=null,object-size,vptr,alignment)
  endif()
endif()

# Warnings for our own code, never for its users. The sources of a folder are compiled together, a dozen at a time, unless
# ALONE follows the name: what is expensive are the templates that they share. Names in their unnamed namespaces must
# differ, therefore. The preset dev compiles every file alone.
function(bilevel_own_target target)
  set(shadow -Wshadow)
  if(BILEVEL_UNITY AND NOT "ALONE" IN_LIST ARGN)
    get_target_property(sources ${target} SOURCES)
    foreach(source IN LISTS sources)
      get_source_file_property(own ${source} COMPILE_OPTIONS)
      if(NOT own)
        cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE place)
        cmake_path(GET place PARENT_PATH folder)
        cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
        string(MAKE_C_IDENTIFIER "${folder}" group)
        math(EXPR dozen "0${in_${group}} / 12")
        math(EXPR in_${group} "0${in_${group}} + 1")
        set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group}_${dozen})
      endif()
    endforeach()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    # GCC takes files that are included for headers; and names may be those of another file.
    set(shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic -Wnon-virtual-dtor -Woverloaded-virtual
    ${shadow}
    $<$<BOOL:${BILEVEL_WERROR}>:-Werror>
    $<$<NOT:$<BOOL:${BILEVEL_OPENMP}>>:-Wno-unknown-pragmas>)
endfunction()
