"""Computes convolutions and matrix products in 8 bits, with ranges that were measured on samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_ci.errors import ModelError
from onnx_ci.methods.applied import Applied
from onnx_ci.methods.options import StaticInt8
from onnx_ci.methods.quantizers import quantized
from onnx_ci.methods.unfit import unfit
from onnx_ci.model.container import Model

if TYPE_CHECKING:
    from onnx_ci.methods.base import Feeds

OPS = ("Conv", "MatMul", "Gemm")
KINDS = "biufU"  # numpy's letters for what can be written without pickle and read without ml_dtypes


def apply(model: Model, options: StaticInt8, feeds: Feeds) -> Applied:
    reason = unfit(model.proto)
    if reason:
        return Applied(0, f"left alone: {reason}")
    try:
        samples = _saved(feeds(), model.store.folder())
    except ModelError as error:
        return Applied(0, f"static-int8 failed: {error.message}", failed=True)
    settings = {
        "samples": samples,
        "calibration": options.calibration,
        "ops": list(options.ops or OPS),
        "per_channel": options.per_channel,
        "reduce_range": options.reduce_range,
        "weight_type": options.weight_type,
        "activation_type": options.activation_type,
    }
    return quantized(model, "static_int8", settings, skip=options.skip)


def _saved(samples: Sequence[Mapping[str, Any]], folder: Path) -> list[dict[str, str]]:
    """The samples as .npy files, by input; names of inputs may hold anything, so files are numbered."""
    saved: list[dict[str, str]] = []
    for number, sample in enumerate(samples):
        files = {name: str(folder / f"{number}-{place}.npy") for place, name in enumerate(sample)}
        for name, file in files.items():
            np.save(file, _plain(name, sample[name]), allow_pickle=False)
        saved.append(files)
    return saved


def _plain(name: str, value: Any) -> np.ndarray[Any, np.dtype[Any]]:
    array = value.astype(np.str_) if isinstance(value, np.ndarray) and value.dtype.kind == "O" else value
    if not isinstance(array, np.ndarray) or array.dtype.kind not in KINDS:
        raise ModelError(f"input {name!r} is of a type that onnxruntime does not calibrate on")
    return array
