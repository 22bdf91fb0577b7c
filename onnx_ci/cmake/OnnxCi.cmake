# onnx_ci_shrink(TARGET <name> MODELS <file>... OUTPUT_DIR <folder>
#                [POLICY <file>] [EMBED] [EXCLUDE_FROM_ALL])
#
# Builds MODELS into OUTPUT_DIR as the rules of POLICY say: shrunk, verified, under the same file names. Without
# POLICY it is for each the nearest .onnx-ci.yaml, upward from the model to the top of the project. A model is
# built again when it, its external data, the policy or a sample changes. Relative paths are relative to the
# current source folder, OUTPUT_DIR to the current binary folder.
#
# <name> is a custom target, part of `all` unless EXCLUDE_FROM_ALL is given; its property ONNX_CI_OUTPUTS lists the
# files. With EMBED it is a static C library: encoder.onnx becomes encoder_onnx[] and encoder_onnx_size, declared
# in "encoder_onnx.h".

cmake_policy(VERSION 3.20...4.0)

get_filename_component(_onnx_ci_prefix "${CMAKE_CURRENT_LIST_DIR}" REALPATH)
find_program(
  ONNX_CI_EXECUTABLE
  NAMES onnx-ci
  HINTS "${_onnx_ci_prefix}/../../../bin" "${_onnx_ci_prefix}/../../../../../bin"
        "${_onnx_ci_prefix}/../../../Scripts" "${_onnx_ci_prefix}/../../../../Scripts"
  DOC "The program onnx-ci, or a list that runs it: python;-m;onnx_ci")
unset(_onnx_ci_prefix)
if(ONNX_CI_EXECUTABLE)
  list(GET ONNX_CI_EXECUTABLE 0 _onnx_ci_program)
  find_program(_onnx_ci_found NAMES "${_onnx_ci_program}")
  if(NOT _onnx_ci_found)
    message(FATAL_ERROR "ONNX_CI_EXECUTABLE is ${ONNX_CI_EXECUTABLE}, and there is no such program")
  endif()
  unset(_onnx_ci_program)
  unset(_onnx_ci_found CACHE)
endif()
mark_as_advanced(ONNX_CI_EXECUTABLE)

function(onnx_ci_shrink)
  cmake_parse_arguments(PARSE_ARGV 0 arg "EMBED;EXCLUDE_FROM_ALL" "TARGET;POLICY;OUTPUT_DIR" "MODELS")
  foreach(name IN ITEMS TARGET MODELS OUTPUT_DIR)
    if(NOT arg_${name})
      message(FATAL_ERROR "onnx_ci_shrink: ${name} is missing, for example:"
                          " onnx_ci_shrink(TARGET models MODELS encoder.onnx OUTPUT_DIR models)")
    endif()
  endforeach()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "onnx_ci_shrink: unknown argument: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT ONNX_CI_EXECUTABLE)
    message(FATAL_ERROR "onnx_ci_shrink: the program onnx-ci was not found:"
                        " pip install onnx-ci, or set ONNX_CI_EXECUTABLE")
  endif()
  get_filename_component(folder "${arg_OUTPUT_DIR}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
  set(private "${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${arg_TARGET}.onnx-ci")
  file(MAKE_DIRECTORY "${folder}" "${private}")

  set(outputs)
  set(sources)
  foreach(model IN LISTS arg_MODELS)
    get_filename_component(source "${model}" ABSOLUTE)
    get_filename_component(name "${model}" NAME)
    set(output "${folder}/${name}")
    _onnx_ci_policy("${arg_POLICY}" "${source}" policy)
    if(output IN_LIST outputs)
      message(FATAL_ERROR "onnx_ci_shrink: two models are called ${name}; give each an OUTPUT_DIR of its own")
    endif()
    get_property(taken GLOBAL PROPERTY _onnx_ci_outputs)
    if(output IN_LIST taken)
      message(FATAL_ERROR "onnx_ci_shrink: another target writes ${output} too; give it an OUTPUT_DIR of its own")
    endif()
    set_property(GLOBAL APPEND PROPERTY _onnx_ci_outputs "${output}")
    set(found_out --depfile "${private}/${name}.d")
    set(depfile DEPFILE "${private}/${name}.d")
    if("${source}${output}${policy}" MATCHES "[=%|]")
      message(WARNING "onnx_ci_shrink: ${source} or ${output} has a character in it that no depfile can hold;"
                      " changes of its external data or samples will go unseen")
      set(found_out)
      set(depfile)
    endif()
    add_custom_command(
      OUTPUT "${output}"
      COMMAND ${ONNX_CI_EXECUTABLE} shrink "${source}" "${output}" --policy "${policy}" ${found_out}
      DEPENDS "${source}" "${policy}"
      ${depfile}
      COMMENT "Shrinking ${name}"
      VERBATIM)
    set_property(DIRECTORY APPEND PROPERTY ADDITIONAL_CLEAN_FILES "${output}.data")
    list(APPEND outputs "${output}")
    if(arg_EMBED)
      _onnx_ci_embed("${output}" "${private}" source)
      list(GET source 0 embedded)
      if(embedded IN_LIST sources)
        message(FATAL_ERROR "onnx_ci_shrink: ${name} and another model would have the same name in C;"
                            " rename one, or embed it in a target of its own")
      endif()
      list(APPEND sources ${source})
    endif()
  endforeach()

  set(all ALL)
  if(arg_EXCLUDE_FROM_ALL)
    set(all)
  endif()
  if(arg_EMBED)
    if(NOT all)
      set(all EXCLUDE_FROM_ALL)
    else()
      set(all)
    endif()
    add_library(${arg_TARGET} STATIC ${all} ${sources})
    target_include_directories(${arg_TARGET} PUBLIC "$<BUILD_INTERFACE:${private}>")
    set_target_properties(${arg_TARGET} PROPERTIES POSITION_INDEPENDENT_CODE ON LINKER_LANGUAGE C)
  else()
    add_custom_target(${arg_TARGET} ${all} DEPENDS ${outputs})
  endif()
  set_target_properties(${arg_TARGET} PROPERTIES ONNX_CI_OUTPUTS "${outputs}")
endfunction()

# The policy that was named, or the nearest one upward from the model; an absolute path. One that is added
# nearer or taken away later means another run of CMake.
function(_onnx_ci_policy given model result)
  if(given)
    get_filename_component(found "${given}" ABSOLUTE)
    if(NOT EXISTS "${found}")
      message(FATAL_ERROR "onnx_ci_shrink: there is no policy file ${found}")
    endif()
    set(${result} "${found}" PARENT_SCOPE)
    return()
  endif()
  get_filename_component(folder "${model}" DIRECTORY)
  set(start "${folder}")
  while(TRUE)
    file(GLOB found CONFIGURE_DEPENDS "${folder}/.onnx-ci.yaml" "${folder}/.onnx-ci.yml")
    if(found)
      list(GET found 0 found)
      set(${result} "${found}" PARENT_SCOPE)
      return()
    endif()
    get_filename_component(above "${folder}" DIRECTORY)
    if(folder STREQUAL CMAKE_SOURCE_DIR OR above STREQUAL folder)
      message(FATAL_ERROR "onnx_ci_shrink: there is no .onnx-ci.yaml from ${start} up to"
                          " ${CMAKE_SOURCE_DIR}; onnx-ci init writes one, or name it with POLICY")
    endif()
    set(folder "${above}")
  endwhile()
endfunction()

# A C file and its header for one model.
function(_onnx_ci_embed model folder result)
  get_filename_component(name "${model}" NAME)
  string(MAKE_C_IDENTIFIER "${name}" symbol)
  set(source "${folder}/${symbol}.c")
  add_custom_command(
    OUTPUT "${source}" "${folder}/${symbol}.h"
    COMMAND ${ONNX_CI_EXECUTABLE} embed "${model}" "${source}" --symbol "${symbol}"
    DEPENDS "${model}"
    COMMENT "Embedding ${name}"
    VERBATIM)
  set(${result} "${source}" "${folder}/${symbol}.h" PARENT_SCOPE)
endfunction()
