"""Every large tensor in every form it may have: estimates for all, values on demand."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np

from onnx_ci.methods.compressible import compressed_share
from onnx_ci.methods.rounding import Array
from onnx_ci.methods.selection import encoding_parts
from onnx_ci.methods.weights import Encode, is_chosen
from onnx_ci.model.container import Model
from onnx_ci.model.graph import Scope, Site, fixed_names, sites
from onnx_ci.planner.forms import Form
from onnx_ci.planner.sketch import sketched

ENOUGH = 1 << 16  # elements of a tensor that tell what rounding does to all of it
THREADS = 4
Given = TypeVar("Given")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Estimate:
    """What a form takes, and the sum of squares of what rounding changes, about."""

    nbytes: float
    error: float


@dataclass
class Tensor:
    """A name with all the places it stands for; those are stored alike. Forms by their number."""

    name: str
    places: list[Site]
    nbytes: float = 0.0
    elements: int = 0
    forms: dict[int, Estimate] = field(default_factory=dict)


class Shelf:
    """`compressed` counts bytes as they are once the file is compressed; forms that leave less than `least`
    dB of a tensor are not for it."""

    def __init__(
        self, model: Model, forms: Sequence[Form], folder: Path, *, compressed: bool, least: float = 0.0
    ) -> None:
        self.model = model
        self.forms = forms
        self.folder = folder
        self.compressed = compressed
        self.least = least  # dB that a form has to leave of a tensor
        self.tables: dict[int, float] = {}  # bytes that all tensors of a form share
        self.encodings = [form.encoding(model) for form in forms]
        found = self._found()
        known = _side_by_side(self._estimated, found)
        self.tensors = {tensor.name: tensor for tensor in known if tensor.forms}
        self.numbers = {name: number for number, name in enumerate(self.tensors)}
        self.ready: dict[tuple[str, int], list[Path]] = {}

    def files(self, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], list[Path]]:
        """The values of tensors in forms, as files: all forms together may be more than memory holds."""
        keys = list(wanted)
        missing = [key for key in keys if key not in self.ready]
        self.ready.update(zip(missing, _side_by_side(self._written, missing), strict=True))
        return {key: self.ready[key] for key in keys}

    def damaged(self, name: str) -> list[Path]:
        """A tensor with its values in reverse order, as files."""
        made: list[Path] = []
        for place, site in enumerate(self.tensors[name].places):
            values = self.model.array(site.tensor)
            made.append(self.folder / f"damaged-{place}.npy")
            np.save(made[-1], values.reshape(-1)[::-1].reshape(values.shape), allow_pickle=False)
        return made

    def _found(self) -> list[Tensor]:
        """The weights that some form may take, in the main graph and all that is nested in it."""
        left_alone = fixed_names(self.model.proto) | encoding_parts(self.model.proto)
        found: dict[str, Tensor] = {}
        for scope in Scope(self.model.proto.graph).nested():
            for site in sites(scope, left_alone):
                if any(is_chosen(site, form.options) for form in self.forms):
                    found.setdefault(site.name, Tensor(site.name, [])).places.append(site)
        return list(found.values())

    def _estimated(self, tensor: Tensor) -> Tensor:
        arrays = [_sample(self.model.array(site.tensor)) for site in tensor.places]
        tensor.elements = sum(elements for _, elements in arrays)
        power = sum(float(np.vdot(part, part)) * elements / part.size for part, elements in arrays)
        tensor.nbytes = sum(4 * elements * self._share([part]) for part, elements in arrays)
        for index, (form, encode) in enumerate(zip(self.forms, self.encodings, strict=True)):
            if encode is None or not all(is_chosen(site, form.options) for site in tensor.places):
                continue
            estimate = self._in_form(index, encode, tensor, arrays)
            if estimate is not None and estimate.nbytes < tensor.nbytes and self._fit(estimate, power):
                tensor.forms[index] = estimate
        return tensor

    def _fit(self, estimate: Estimate, power: float) -> bool:
        return estimate.error * 10 ** (self.least / 10) <= power

    def _in_form(
        self, index: int, encode: Encode, tensor: Tensor, arrays: Sequence[tuple[Array, int]]
    ) -> Estimate | None:
        nbytes = error = 0.0
        for site, (part, elements) in zip(tensor.places, arrays, strict=True):
            made = sketched(self.model, site, encode, part)
            if made is None:
                return None
            difference = (made.values - part).reshape(-1)
            error += float(np.vdot(difference, difference)) * elements / part.size
            self.tables[index] = made.shared
            share = self._share(list(made.parts.values()))
            nbytes += self.forms[index].nbytes(elements, tuple(site.tensor.dims)) * share + made.overhead
        return Estimate(nbytes, error)

    def _share(self, parts: Sequence[Array]) -> float:
        """What compression leaves, if that counts: by the largest part."""
        return compressed_share(max(parts, key=lambda part: part.nbytes)) if self.compressed else 1.0

    def _written(self, key: tuple[str, int]) -> list[Path]:
        name, form = key
        encode, made = self.encodings[form], []
        for place, site in enumerate(self.tensors[name].places):
            file = self.folder / f"{self.numbers[name]}-{form}-{place}.npy"
            values = self.model.array(site.tensor)
            found = sketched(self.model, site, encode, values) if encode else None
            np.save(file, values if found is None else found.values, allow_pickle=False)
            made.append(file)
        return made


def _side_by_side(work: Callable[[Given], Made], items: Iterable[Given]) -> list[Made]:
    """numpy lets other threads run while it computes."""
    with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)) as pool:
        return list(pool.map(work, items))


def _sample(values: Array) -> tuple[Array, int]:
    """A part of a large tensor, evenly spread along its longest axis, and how many elements there are."""
    if values.size <= ENOUGH:
        return values, values.size
    axis = int(np.argmax(values.shape))
    length = values.shape[axis]
    count = max(1, length * ENOUGH // values.size)
    chosen = np.linspace(0, length - 1, count).astype(np.int64)
    return np.ascontiguousarray(values.take(chosen, axis=axis)), values.size
