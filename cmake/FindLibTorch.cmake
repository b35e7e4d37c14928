# LibTorch as the target LibTorch::LibTorch: Debian's libtorch-dev, or the one inside Python's package torch (then
# CMAKE_PREFIX_PATH is what torch.utils.cmake_prefix_path says). TorchConfig.cmake only says where it lies: read whole it
# wants the CUDA toolkit wherever LibTorch was built with it, and changes the flags of everything.
set(suffixes Torch cmake/Torch share/cmake/Torch)
if(CMAKE_LIBRARY_ARCHITECTURE)
  list(APPEND suffixes lib/${CMAKE_LIBRARY_ARCHITECTURE}/cmake/Torch)
endif()
find_path(Torch_DIR TorchConfig.cmake HINTS ${CMAKE_PREFIX_PATH} ENV CMAKE_PREFIX_PATH
          PATHS /usr /usr/local PATH_SUFFIXES ${suffixes} NO_DEFAULT_PATH)
mark_as_advanced(Torch_DIR)

if(Torch_DIR)
  # <prefix>/share/cmake/Torch, or <prefix>/lib/<architecture>/cmake/Torch.
  string(REGEX REPLACE "/(share|lib(/[^/]+)?)/cmake/Torch$" "" prefix ${Torch_DIR})
  find_path(LibTorch_INCLUDE_DIR ATen/ATen.h HINTS ${prefix}/include NO_DEFAULT_PATH)
  set(LibTorch_libraries "")
  # torch_cuda is loaded for what it registers: nothing in it is called by name.
  foreach(name torch torch_cpu c10 torch_cuda c10_cuda)
    find_library(LibTorch_${name}_LIBRARY ${name} HINTS ${prefix}/lib ${prefix}/lib/${CMAKE_LIBRARY_ARCHITECTURE} NO_DEFAULT_PATH)
    mark_as_advanced(LibTorch_${name}_LIBRARY)
    if(LibTorch_${name}_LIBRARY)
      list(APPEND LibTorch_libraries ${LibTorch_${name}_LIBRARY})
    endif()
  endforeach()
  mark_as_advanced(LibTorch_INCLUDE_DIR)
  file(READ ${Torch_DIR}/TorchConfig.cmake text)
  if(text MATCHES "_GLIBCXX_USE_CXX11_ABI=0")
    set(LibTorch_NOT_FOUND_MESSAGE "${Torch_DIR} is of a LibTorch with the old ABI of libstdc++; 2.6 and later have the new one")
    set(LibTorch_INCLUDE_DIR LibTorch_INCLUDE_DIR-NOTFOUND)
  endif()
  file(GLOB LibTorch_version_file ${prefix}/include/torch/headeronly/version.h ${prefix}/include/torch/version.h
       ${prefix}/include/torch/csrc/api/include/torch/version.h)
  foreach(file IN LISTS LibTorch_version_file)
    file(STRINGS ${file} numbers REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
    list(TRANSFORM numbers REPLACE ".* " "")
    list(JOIN numbers . numbers)
    if(numbers)
      set(LibTorch_VERSION ${numbers})
    endif()
  endforeach()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_INCLUDE_DIR LibTorch_torch_LIBRARY LibTorch_torch_cpu_LIBRARY LibTorch_c10_LIBRARY
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "${LibTorch_NOT_FOUND_MESSAGE}")

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  # Python's package holds headers of an {fmt} of its own, which would be taken for the one that bilevel is built with.
  if(EXISTS ${LibTorch_INCLUDE_DIR}/fmt)
    find_path(LibTorch_fmt_INCLUDE_DIR fmt/format.h REQUIRED)
    mark_as_advanced(LibTorch_fmt_INCLUDE_DIR)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/fmt-first)
    file(CREATE_LINK ${LibTorch_fmt_INCLUDE_DIR}/fmt ${CMAKE_BINARY_DIR}/fmt-first/fmt SYMBOLIC)
    target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/fmt-first)
  endif()
  target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE
    ${LibTorch_INCLUDE_DIR} ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include)
  # Graphs of CUDA need its headers, the toolkit's or those beside Python's package torch.
  if(LibTorch_torch_cuda_LIBRARY)
    file(GLOB beside ${prefix}/../nvidia/cu*/include ${prefix}/../nvidia/cuda_runtime/include)
    find_path(LibTorch_CUDA_INCLUDE_DIR crt/host_defines.h  # which those beside the package may lack
              HINTS ${beside} ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include)
    mark_as_advanced(LibTorch_CUDA_INCLUDE_DIR)
  endif()
  # What LibTorch itself needs, CUDA's libraries among it, it finds by itself when it is loaded.
  target_link_libraries(LibTorch::LibTorch INTERFACE
    -Wl,--allow-shlib-undefined -Wl,--push-state,--no-as-needed ${LibTorch_libraries} -Wl,--pop-state)
endif()

# Lets a target use what CUDA devices offer: graphs where the headers of CUDA are (BILEVEL_TORCH_CUDA), the kernels FOLDER/NAME.cu
# and their headers NAME.hpp where its compiler and the static part of its runtime are too (BILEVEL_TORCH_KERNELS). (As a language
# of the project CUDA would be one of everybody who links the target.)
function(bilevel_use_cuda target folder)
  if(NOT LibTorch_CUDA_INCLUDE_DIR)
    return()
  endif()
  target_compile_definitions(${target} PRIVATE BILEVEL_TORCH_CUDA)
  target_include_directories(${target} SYSTEM PRIVATE ${LibTorch_CUDA_INCLUDE_DIR})
  find_program(LibTorch_nvcc nvcc HINTS ${LibTorch_CUDA_INCLUDE_DIR}/../bin ENV CUDA_HOME
               PATHS /usr/local/cuda PATH_SUFFIXES bin)
  find_library(LibTorch_cudart cudart_static HINTS ${LibTorch_CUDA_INCLUDE_DIR}/.. PATHS /usr/local/cuda
               PATH_SUFFIXES lib64 lib)
  mark_as_advanced(LibTorch_nvcc LibTorch_cudart)
  if(LibTorch_nvcc AND LibTorch_cudart)
    foreach(kernel IN LISTS ARGN)
      set(object ${CMAKE_CURRENT_BINARY_DIR}/${kernel}.o)
      add_custom_command(OUTPUT ${object}
        COMMAND ${LibTorch_nvcc} -std=c++17 -O3 -arch=all-major -Xcompiler -fPIC
                -MD -MF ${object}.d -c ${folder}/${kernel}.cu -o ${object}
        DEPENDS ${folder}/${kernel}.cu ${folder}/${kernel}.hpp
        DEPFILE ${object}.d
        COMMENT "Compiling ${kernel}.cu" VERBATIM)
      target_sources(${target} PRIVATE ${object})
    endforeach()
    target_compile_definitions(${target} PRIVATE BILEVEL_TORCH_KERNELS)
    target_link_libraries(${target} PUBLIC ${LibTorch_cudart} rt)
  endif()
endfunction()
