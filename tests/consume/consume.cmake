# Builds the consumer in one of two WAYs and runs it; it must print VERSION.
string(REPLACE "|" ";" LAUNCHER "${LAUNCHER}")
set(ENV{CMAKE_CXX_COMPILER_LAUNCHER} "${LAUNCHER}")

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGV " " command)
    message("${command}\n${output}")
    message(FATAL_ERROR "ended with ${status}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

if(WAY STREQUAL "find_package")
  # From nothing each time: a file that the install rules forget must not be found where it was.
  file(REMOVE_RECURSE ${BINARY})
  run(${CMAKE_COMMAND} --install ${BILEVEL_BUILD} --component library --prefix ${BINARY}/prefix)
  set(where -DCMAKE_PREFIX_PATH=${BINARY}/prefix)
else()
  # The whole library once more: in few units, and without symbols.
  set(where -DBILEVEL_SOURCE=${BILEVEL_SOURCE} -DBILEVEL_UNITY=ON -DBILEVEL_TORCH=OFF -DCMAKE_CXX_FLAGS_DEBUG=-O0)
endif()
run(${CMAKE_COMMAND} --fresh -S ${CONSUMER} -B ${BINARY}/build -G ${GENERATOR} ${where}
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=${BUILD_TYPE})
run(${CMAKE_COMMAND} --build ${BINARY}/build)
run(${BINARY}/build/consumer)
string(FIND "${output}" "${VERSION}" place)
if(place EQUAL -1)
  message(FATAL_ERROR "the consumer printed '${output}', not the version ${VERSION}")
endif()
message("${output}")
