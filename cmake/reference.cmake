# The target `reference` writes build/reference/html/index.html: the public headers and the pages of docs/.
find_program(BILEVEL_DOXYGEN doxygen)
mark_as_advanced(BILEVEL_DOXYGEN)
if(BILEVEL_DOXYGEN)
  configure_file(cmake/Doxyfile.in reference/Doxyfile @ONLY)
  add_custom_target(reference
    COMMAND ${CMAKE_COMMAND} -E copy_directory ${PROJECT_SOURCE_DIR}/examples reference/examples  # pages link to them
    COMMAND ${BILEVEL_DOXYGEN} reference/Doxyfile
    WORKING_DIRECTORY ${PROJECT_BINARY_DIR}
    COMMENT "Writing the reference: ${PROJECT_BINARY_DIR}/reference/html/index.html" VERBATIM)
endif()
