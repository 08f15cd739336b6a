# Installs headcount into a new prefix, takes the library program and its output from README.md,
# builds the program against the installed copy with find_package(headcount), and compares what it
# prints. Run as: cmake -D BUILD=... -D SOURCE=... -D WORK=... -P install_test.cmake
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK}/program)

function(run_checked)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed: ${ARGV}\n${output}")
  endif()
endfunction()

file(READ ${SOURCE}/README.md readme)
string(REGEX MATCH "```cpp\n([^`]*)```\n+```\n([^`]*)```" found "${readme}")
if(NOT found)
  message(FATAL_ERROR "README.md has no C++ program followed by its output")
endif()
set(expected "${CMAKE_MATCH_2}")
file(WRITE ${WORK}/program/main.cpp "${CMAKE_MATCH_1}")
file(WRITE ${WORK}/program/CMakeLists.txt [[
cmake_minimum_required(VERSION 3.25)
project(program LANGUAGES CXX)
find_package(headcount REQUIRED)
add_executable(program main.cpp)
target_link_libraries(program PRIVATE headcount::headcount)
]])

run_checked(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run_checked(${CMAKE_COMMAND} -S ${WORK}/program -B ${WORK}/build -D CMAKE_PREFIX_PATH=${WORK}/prefix
  -D CMAKE_CXX_FLAGS=${FLAGS} -D CMAKE_BUILD_TYPE=Release -D CMAKE_TOOLCHAIN_FILE=${TOOLCHAIN})
run_checked(${CMAKE_COMMAND} --build ${WORK}/build)
execute_process(COMMAND ${EMULATOR} ${WORK}/build/program OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
if(NOT printed STREQUAL expected)
  message(FATAL_ERROR "README.md shows\n${expected}\nthe program prints\n${printed}")
endif()
