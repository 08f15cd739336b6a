# Writes a ctest entry for each suite of a test program, which one process then runs:
# cmake -D NAME= -D PROGRAM= -D LABEL= -D SOURCES= -D LEFT_OUT= -D OUT= -P suites.cmake, after the program
# is linked. A line "// label: L" at the head of a test file gives its suites one more label.
foreach(source ${SOURCES})
  file(STRINGS ${source} label REGEX "^// label: " LIMIT_COUNT 1)
  string(REPLACE "// label: " "" label "${label}")
  file(STRINGS ${source} tests REGEX "^(TEST|TEST_F|TEST_P|RC_GTEST_PROP)\\(")
  list(TRANSFORM tests REPLACE "^[A-Z_]+\\(([A-Za-z0-9]+),.*" "\\1")
  list(REMOVE_DUPLICATES tests)
  foreach(suite ${tests})
    if(DEFINED label_${suite} AND NOT label_${suite} STREQUAL label)
      message(FATAL_ERROR "${suite} has the label '${label}' in ${source} and another in another file")
    endif()
    set(label_${suite} "${label}")
  endforeach()
endforeach()

execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "\n[A-Za-z0-9_/]+\\." suites "\n${listed}")
list(TRANSFORM suites REPLACE "^\n([A-Za-z0-9_]+/)?([A-Za-z0-9_]+)[.]" "\\2")
list(REMOVE_DUPLICATES suites)
set(entries "")
foreach(suite ${suites})
  # Tests run side by side: a thread that waits shall not take a processor from another test.
  string(APPEND entries "add_test(${NAME}.${suite} [==[${PROGRAM}]==] --gtest_filter=${suite}.*:*/${suite}.*-${LEFT_OUT})\n"
    "set_tests_properties(${NAME}.${suite} PROPERTIES LABELS \"${LABEL};${label_${suite}}\" "
    "ENVIRONMENT OMP_WAIT_POLICY=passive TIMEOUT 1800)\n")
endforeach()
file(WRITE ${OUT} "${entries}")
