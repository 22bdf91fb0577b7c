"""`python -m onnx_ci` does what `onnx-ci` does."""

from onnx_ci.cli.main import run

run()
