"""The ONNX standard's own test models, and the real ones: each with the inputs it came with, if any."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import models
import numpy as np
import onnx
import onnx.numpy_helper
from onnx.backend.test import loader

KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted", "light")
REAL = "real"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A model as a file, or still in memory. `inputs` are values in the order of the graph's inputs."""

    name: str
    kind: str
    path: Path | None = None
    proto: onnx.ModelProto | None = None
    inputs: list[Any] | None = None
    folder: Path | None = None  # with test_data_set_* in it


def cases(kind: str) -> Iterator[Case]:
    if kind == REAL:
        yield from (Case(name=name, kind=kind, path=models.fetch(name)) for name in models.NAMES)
    elif kind == "light":
        # Their weights are made up by the graph itself, so that they are small files.
        for path in sorted((Path(loader.DATA_DIR) / kind).glob("*.onnx")):
            yield Case(name=path.stem, kind=kind, path=path)
    else:
        found = sorted(loader.load_model_tests(kind=kind), key=lambda case: case.name)
        yield from (made for case in found if (made := _case(case, kind)) is not None)


def _case(case: Any, kind: str) -> Case | None:
    if case.model is not None:  # recent versions of onnx make these when asked
        given = [_value(value) for value in case.data_sets[0][0]] if case.data_sets else None
        return Case(name=case.name, kind=kind, proto=case.model, inputs=given)
    if case.model_dir is None:  # only an address to download from
        return None
    folder = Path(case.model_dir)
    return Case(name=case.name, kind=kind, path=folder / "model.onnx", folder=folder)


def _value(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return value if value is None or isinstance(value, list | dict) else np.asarray(value)
