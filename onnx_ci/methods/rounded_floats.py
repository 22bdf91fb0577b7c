"""Rounds weights that stay float32: the file stays as large, a compressor makes less of it."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from onnx_ci.methods.applied import Applied
from onnx_ci.methods.options import WeightOptions
from onnx_ci.methods.quantized import encoding_parts
from onnx_ci.methods.scopes import fixed_names, roots
from onnx_ci.methods.slices import Array
from onnx_ci.methods.weights import kept_note, plain_weight, weight_sites
from onnx_ci.model.container import Model
from onnx_ci.model.store import CHUNK

LEVEL = 1  # of zlib: enough to see whether bytes got more alike
PIECES = 8  # of a large tensor, spread over it, tell as much as all of it


def round_weights(model: Model, options: WeightOptions, rounding: Callable[[Array], Array | None]) -> Applied:
    """Round every plain weight that the options choose, where it compresses better afterwards.

    `rounding` gives None for a weight that it would do too much harm to.
    """
    left_alone = fixed_names(model.proto) | encoding_parts(model.proto)
    kept: list[str] = []
    count = 0
    for root in roots(model.proto):
        for site in weight_sites(root, left_alone, options):
            values = model.array(site.tensor)
            new = rounding(values) if plain_weight(values) else None
            if new is None:
                kept.append(site.name)
            elif compressed_size(new) < compressed_size(values):
                model.set_array(site.tensor, new)
                count += 1
    return Applied(count, kept_note(kept, "masks, indices or too uneven"))


def compressed_size(values: Array) -> int:
    """Bytes after compression, of the same parts of a tensor each time: to be compared, not added up."""
    stream = zlib.compressobj(LEVEL)
    return sum(len(stream.compress(piece.data)) for piece in _pieces(values)) + len(stream.flush())


def compressed_share(values: Array) -> float:
    """What compression leaves of a tensor, by the same parts of it."""
    return compressed_size(values) / max(1, sum(piece.size for piece in _pieces(values)))


def _pieces(values: Array) -> list[Array]:
    data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    stride = CHUNK * max(1, data.size // (CHUNK * PIECES))
    return [data[start : start + CHUNK] for start in range(0, data.size, stride)]
