"""The names of sizes that a model leaves open, and which of the names a user gave are none of them."""

from __future__ import annotations

import re
from collections.abc import Iterable

import onnx

from onnx_ci.inputs.generate import dims_of, fed_inputs
from onnx_ci.verify.wrapping import unwrapped

_SHOWN = 8
_SIGNS = re.compile(r"[\s()+*-]+")


def open_dims(proto: onnx.ModelProto) -> list[str]:
    """Symbols in the inputs, as they are written there: `past + 1` counts as a whole."""
    found = (unwrapped(value.type) for value in fed_inputs(proto))
    shapes = (dims_of(one[0]) or () for one in found if one is not None)
    return list(dict.fromkeys(dim for shape in shapes for dim in shape if isinstance(dim, str)))


def unknown_dims(proto: onnx.ModelProto, given: Iterable[str]) -> str:
    """What is wrong with these names, and which there are; empty if each stands for a size."""
    there = open_dims(proto)
    known = {*there, *(part for dim in there for part in _SIGNS.split(dim))}
    unknown = [name for name in given if name not in known]
    if not unknown:
        return ""
    named = ", ".join(there[:_SHOWN]) + (", …" if len(there) > _SHOWN else "")
    have = f"its inputs leave open: {named}" if there else "its inputs have no named dim that is open"
    return f"no dim of the model is called {', '.join(map(repr, unknown))}; {have}"
