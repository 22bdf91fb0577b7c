"""`python -m onnx_ci` does what `onnx-ci` does."""

from onnx_ci.entry.cli import run

run()
