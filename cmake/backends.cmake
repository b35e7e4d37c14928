# What backends share. Each is a target bilevel::NAME of its folder: sources in src/, public headers in include/.

# For a backend whose software was not found: leaves the calling file, with a word, or stops where `option` asks for it.
macro(bilevel_leave_out_backend name option missing)
  if(${option} STREQUAL "AUTO")
    message(STATUS "bilevel::${name} is left out: ${missing}")
    return()
  endif()
  message(FATAL_ERROR "${option} is ${${option}}, but ${missing}")
endmacro()

# Installed with the library, in the export set EXPORT, which is bilevel unless given.
function(bilevel_add_backend name)
  cmake_parse_arguments(PARSE_ARGV 1 own "" "EXPORT" "")
  if(NOT own_EXPORT)
    set(own_EXPORT bilevel)
  endif()
  set(target bilevel_${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS src/*.cpp)
  add_library(${target})
  add_library(bilevel::${name} ALIAS ${target})
  bilevel_add_sources(${target} ${sources})
  bilevel_own_target(${target})
  target_include_directories(${target}
    PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PUBLIC bilevel::bilevel)
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${name}
    POSITION_INDEPENDENT_CODE ON
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  if(BILEVEL_INSTALL)
    install(TARGETS ${target} EXPORT ${own_EXPORT}
            ARCHIVE COMPONENT library LIBRARY COMPONENT library RUNTIME COMPONENT library)
    install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
  endif()
endfunction()
