"""What values are drawn for: one input of one sample, with what is known of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from onnx_ci.inputs import names
from onnx_ci.inputs.dims import Dim, Input
from onnx_ci.inputs.graph import Shape
from onnx_ci.inputs.roles import Role
from onnx_ci.verify.asked import Context
from onnx_ci.verify.dtypes import Array


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What all inputs of one sample share."""

    index: int
    seed: int
    shapes: Mapping[str, Shape]
    flag: bool  # for scalar booleans
    length: int  # of the sequence, for inputs that say how long it is
    shortest: int  # of the open dimensions: a safe bound for indices into computed values
    past: int = 0
    small: bool = False  # a later attempt: stay near zero where the range is only a guess
    wide: bool = True  # floats of which nothing is known may be far from zero
    ranges: Mapping[str, tuple[float, float]]
    context: Context


class Drawn(NamedTuple):
    """Values, and why these."""

    values: Array
    why: str


class Drawing(NamedTuple):
    """One input that values are drawn for."""

    one: Input
    dims: tuple[Dim, ...]
    role: Role
    sample: Sample
    rng: np.random.Generator

    @property
    def shape(self) -> Shape:
        return self.sample.shapes[self.one.name]

    @property
    def said(self) -> frozenset[str]:
        return names.words(self.one.name)
