"""Recurrent layers with their gates in another library's order, or their directions swapped."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import ModelProto

from damages.base import Array, Damage, Place, elements, nodes, reads, store, values

GATES = {"LSTM": 4, "GRU": 3}
SOURCES = {1: "weights", 2: "recurrence"}  # inputs W and R, gates along axis 1


def _gates(array: Array, count: int) -> Array:
    """Two gates in each other's place: for an LSTM the forget gate and the cell."""
    parts = np.split(array, count, axis=1)
    parts[-1], parts[-2] = parts[-2], parts[-1]
    return np.concatenate(parts, axis=1)


def gates_swapped(index: int) -> Callable[[ModelProto, Place], bool]:
    def strike(model: ModelProto, place: Place) -> bool:
        found = [(node, tensor) for op in GATES for node, tensor in reads(model, [op], index)]
        chosen = place.pick(found, lambda pair: elements(pair[1]))
        if chosen is None:
            return False
        node, tensor = chosen
        return store(tensor, _gates(values(tensor), GATES[node.op_type]))

    return strike


def direction_turned(model: ModelProto, place: Place) -> bool:
    """A layer that reads its sequence from the other end."""
    chosen = place.pick([node for _, node in nodes(model, "LSTM", "GRU", "RNN")])
    if chosen is None:
        return False
    old = next((one for one in chosen.attribute if one.name == "direction"), None)
    if old is not None and old.s == b"bidirectional":
        return False
    if old is None:
        old = chosen.attribute.add(name="direction", type=3)
    old.s = b"forward" if old.s == b"reverse" else b"reverse"
    return True


RECURRENT = (
    *(Damage(name=f"gates swapped, {what}", strike=gates_swapped(at)) for at, what in SOURCES.items()),
    Damage(name="sequence read backwards", strike=direction_turned),
)
