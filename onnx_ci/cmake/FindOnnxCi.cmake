# Found by find_package(OnnxCi) where this folder is in CMAKE_MODULE_PATH.
include("${CMAKE_CURRENT_LIST_DIR}/OnnxCi.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/OnnxCiConfigVersion.cmake")
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  OnnxCi
  REQUIRED_VARS ONNX_CI_EXECUTABLE
  VERSION_VAR PACKAGE_VERSION
  REASON_FAILURE_MESSAGE "pip install onnx-ci, or set ONNX_CI_EXECUTABLE")
unset(PACKAGE_VERSION)
