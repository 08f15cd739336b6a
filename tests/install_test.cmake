# Headcount as a library, for those who use it. Installs it into a new prefix, takes the project, its
# programs and their output from autograd/README.md, builds them against the installed copy with
# find_package(headcount), and compares what they print. All installed headers compile there. As a
# part of another project headcount leaves that one its choices.
# Run as: cmake -D BUILD=... -D SOURCE=... -D WORK=... -P install_test.cmake
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK}/program)

function(run)
  execute_process(COMMAND ${ARGV} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()
set(compiler -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_TOOLCHAIN_FILE=${TOOLCHAIN})

file(READ ${SOURCE}/autograd/README.md readme)
if(NOT readme MATCHES "```cmake\n([^`]*)```")
  message(FATAL_ERROR "autograd/README.md has no CMake project")
endif()
file(WRITE ${WORK}/program/CMakeLists.txt "${CMAKE_MATCH_1}" [[
add_executable(second second.cpp)
target_link_libraries(second PRIVATE headcount::headcount)
file(GLOB sources ${CMAKE_CURRENT_SOURCE_DIR}/headers/*.cpp)
add_library(headers OBJECT ${sources})
target_link_libraries(headers PRIVATE headcount::headcount)
]])
foreach(program program second)
  if(NOT readme MATCHES "```cpp\n([^`]*)```\n+```\n([^`]*)```(.*)")
    message(FATAL_ERROR "autograd/README.md has not two C++ programs, each followed by its output")
  endif()
  file(WRITE ${WORK}/program/${program}.cpp "${CMAKE_MATCH_1}")
  set(expected_of_${program} "${CMAKE_MATCH_2}")
  set(readme "${CMAKE_MATCH_3}")
endforeach()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
file(GLOB_RECURSE headers RELATIVE ${WORK}/prefix/include/headcount ${WORK}/prefix/include/headcount/*.h)
if(NOT headers)
  message(FATAL_ERROR "no header was installed")
endif()
foreach(header ${headers})
  # By itself, unless it has a source file, which includes it first.
  string(REGEX REPLACE "h$" "cpp" source_file ${header})
  set(name all)
  if(NOT EXISTS ${SOURCE}/${source_file})
    string(REPLACE "/" "_" name ${header})
  endif()
  file(APPEND ${WORK}/program/headers/${name}.cpp "#include <${header}>\n")
endforeach()
run(${CMAKE_COMMAND} -S ${WORK}/program -B ${WORK}/build -D CMAKE_PREFIX_PATH=${WORK}/prefix
  ${compiler} -D CMAKE_CXX_FLAGS=${FLAGS} -D CMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build ${WORK}/build --parallel 2)
foreach(program program second)
  execute_process(COMMAND ${EMULATOR} ${WORK}/build/${program} OUTPUT_VARIABLE printed
    COMMAND_ERROR_IS_FATAL ANY)
  if(NOT printed STREQUAL expected_of_${program})
    message(FATAL_ERROR
      "autograd/README.md shows\n${expected_of_${program}}\nthe program prints\n${printed}")
  endif()
endforeach()

run(${EMULATOR} ${WORK}/prefix/bin/headcount --version)

file(WRITE ${WORK}/parent/CMakeLists.txt [[
cmake_minimum_required(VERSION 3.25)
project(parent LANGUAGES CXX)
add_subdirectory(${HEADCOUNT} headcount)
foreach(library headcount::headcount headcount::headcount_d)
  get_target_property(type ${library} TYPE)
  if(NOT type STREQUAL "SHARED_LIBRARY")
    message(FATAL_ERROR "with BUILD_SHARED_LIBS ${library} is a ${type}")
  endif()
endforeach()
if(CMAKE_BUILD_TYPE)
  message(FATAL_ERROR "headcount has set the build type to ${CMAKE_BUILD_TYPE}")
endif()
]])
run(${CMAKE_COMMAND} -S ${WORK}/parent -B ${WORK}/parent_build -D HEADCOUNT=${SOURCE}
  ${compiler} -D HEADCOUNT_OPENMP=${OPENMP} -D HEADCOUNT_MPI=${MPI} -D HEADCOUNT_GEMM=${GEMM}
  -D BUILD_SHARED_LIBS=ON)
