# A kernel is compiled once for each target and chosen at run time: name_baseline.cpp, name_avx2.cpp,
# name_avx512.cpp. The last two exist on x86-64 only, and there BILEVEL_X86_KERNELS is defined.
# Kernels see no Eigen and no precompiled header: an inline function compiled for a wide target must
# never be the copy that the linker keeps for everyone.
set(bilevel_kernel_options -O3 -fno-math-errno -fno-trapping-math -ffp-contract=fast -fopenmp-simd)
set(bilevel_avx2_options -mavx2 -mfma)
set(bilevel_avx512_options -mavx512f -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$" AND CMAKE_SIZEOF_VOID_P EQUAL 8)
  set(bilevel_x86 ON)
  # GCC 12 moves pairs of floats through MMX registers where there is no AVX, and leaves the x87 stack, where long double
  # lives, full.
  list(APPEND bilevel_kernel_options -mno-mmx)
else()
  set(bilevel_x86 OFF)
endif()

function(bilevel_add_sources target)
  foreach(source IN LISTS ARGN)
    if(source MATCHES "_(baseline|avx2|avx512)\\.cpp$")
      set(kind ${CMAKE_MATCH_1})
      if(NOT kind STREQUAL "baseline" AND NOT bilevel_x86)
        continue()
      endif()
      set_source_files_properties(${source} PROPERTIES
        COMPILE_OPTIONS "${bilevel_kernel_options};${bilevel_${kind}_options}"
        SKIP_PRECOMPILE_HEADERS ON)
    endif()
    target_sources(${target} PRIVATE ${source})
  endforeach()
  if(bilevel_x86)
    target_compile_definitions(${target} PRIVATE BILEVEL_X86_KERNELS=1)
  endif()
endfunction()
