# ADOL-C has no package file of its own: ADOLC_FOUND, and the target ADOLC::ADOLC.
find_path(ADOLC_INCLUDE_DIR adolc/adolc.h)
find_library(ADOLC_LIBRARY adolc)
mark_as_advanced(ADOLC_INCLUDE_DIR ADOLC_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ADOLC REQUIRED_VARS ADOLC_LIBRARY ADOLC_INCLUDE_DIR)
if(ADOLC_FOUND AND NOT TARGET ADOLC::ADOLC)
  add_library(ADOLC::ADOLC UNKNOWN IMPORTED)
  set_target_properties(ADOLC::ADOLC PROPERTIES
    IMPORTED_LOCATION ${ADOLC_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${ADOLC_INCLUDE_DIR})
endif()
