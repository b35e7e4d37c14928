include(CMakePackageConfigHelpers)

set(bilevel_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/bilevel)

install(TARGETS bilevel EXPORT bilevel
        ARCHIVE COMPONENT library LIBRARY COMPONENT library RUNTIME COMPONENT library)
install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
install(EXPORT bilevel NAMESPACE bilevel:: FILE bilevelTargets.cmake
        DESTINATION ${bilevel_package_dir} COMPONENT library)

if(TARGET bilevel_torch)
  # Apart from the others: who has no LibTorch finds the rest all the same.
  install(EXPORT bilevelTorch NAMESPACE bilevel:: FILE bilevelTorchTargets.cmake
          DESTINATION ${bilevel_package_dir} COMPONENT library)
  install(FILES cmake/FindLibTorch.cmake DESTINATION ${bilevel_package_dir} COMPONENT library)
endif()

get_target_property(bilevel_type bilevel TYPE)
if(bilevel_type STREQUAL "STATIC_LIBRARY")
  set(bilevel_is_static ON)
else()
  set(bilevel_is_static OFF)
endif()
if(bilevel_is_static)
  install(FILES cmake/FindTurboJPEG.cmake DESTINATION ${bilevel_package_dir} COMPONENT library)
endif()
set(bilevel_has_adolc OFF)
if(TARGET bilevel_adolc)
  set(bilevel_has_adolc ON)
  install(FILES cmake/FindADOLC.cmake DESTINATION ${bilevel_package_dir} COMPONENT library)
endif()
configure_package_config_file(cmake/bilevelConfig.cmake.in bilevelConfig.cmake
  INSTALL_DESTINATION ${bilevel_package_dir})
write_basic_package_version_file(bilevelConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/bilevelConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/bilevelConfigVersion.cmake
        DESTINATION ${bilevel_package_dir} COMPONENT library)
