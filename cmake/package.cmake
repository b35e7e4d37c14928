# What scripts/package makes: a .deb and a .tar.gz of the component `program`, for people without a compiler.
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_COMPONENTS_ALL program)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
# The archive unpacks into a folder of its own.
file(CONFIGURE OUTPUT CPackEach.cmake @ONLY CONTENT
[[if(CPACK_GENERATOR STREQUAL "TGZ")
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
endif()
]])
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_BINARY_DIR}/CPackEach.cmake)
set(CPACK_PACKAGE_FILE_NAME bilevel-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/package)
set(CPACK_PACKAGE_VENDOR "the bilevel authors")
set(CPACK_PACKAGE_CONTACT "the bilevel authors <bilevel@localhost>")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_DEBIAN_PACKAGE_NAME bilevel)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION math)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"Tunes the penalties of linear models on a CSV file, finds rows with wrong labels
and trains networks that settle. Every gradient comes with a bound of its error,
every result with a report to open in a browser.")

# The program holds code of these packages; their licences go with it.
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program RENAME copyright)
install(FILES CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
foreach(package libeigen3-dev libcli11-dev nlohmann-json3-dev libjs-chart.js)
  install(FILES /usr/share/doc/${package}/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR}/copyrights
          COMPONENT program RENAME ${package} OPTIONAL)
endforeach()
find_program(BILEVEL_HELP2MAN help2man)
mark_as_advanced(BILEVEL_HELP2MAN)
if(BILEVEL_HELP2MAN)
  install(CODE "execute_process(COMMAND_ERROR_IS_FATAL ANY COMMAND ${PROJECT_SOURCE_DIR}/scripts/manual
    $<TARGET_FILE:bilevel_program> \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}/man1)" COMPONENT program)
endif()

# Packing takes what has been built, without building the tests first.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
include(CPack)
