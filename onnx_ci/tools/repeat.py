"""Runs a tool until it makes the model no smaller, so that running it once more changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import onnx

MOST = 5


def until_settled(
    tool: Callable[[onnx.ModelProto], onnx.ModelProto], model: onnx.ModelProto
) -> onnx.ModelProto:
    best = tool(model)
    for _ in range(MOST - 1):
        again = onnx.ModelProto()
        again.CopyFrom(best)  # tools edit what they are given
        again = tool(again)
        if again.ByteSize() >= best.ByteSize():
            break
        best = again
    return best
