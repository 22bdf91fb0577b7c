# Found by find_package(OnnxCi) with OnnxCi_DIR or a prefix path.
include("${CMAKE_CURRENT_LIST_DIR}/OnnxCi.cmake")
if(NOT ONNX_CI_EXECUTABLE)
  set(OnnxCi_FOUND FALSE)
  set(OnnxCi_NOT_FOUND_MESSAGE
      "the program onnx-ci was not found: pip install onnx-ci, or set ONNX_CI_EXECUTABLE")
endif()
