"""Pictures and sounds that a trained model takes seriously: white noise makes it answer nothing."""

from __future__ import annotations

import numpy as np

from onnx_ci.verify.dtypes import Array
from onnx_ci.verify.wiring import Shape

_CELLS = 7  # blobs across a picture


def picture(rng: np.random.Generator, shape: Shape, *, channels_last: bool) -> Array:
    """Smooth blobs with some grain, in [0, 1), for a shape of rank 4."""
    height, width = (shape[1], shape[2]) if channels_last else (shape[2], shape[3])
    channels = shape[3] if channels_last else shape[1]
    grid = rng.random((shape[0], channels, _CELLS, _CELLS))
    smooth = _stretch(_stretch(grid, height, axis=2), width, axis=3)
    grained = 0.9 * smooth + 0.1 * rng.random(smooth.shape)
    return grained.transpose(0, 2, 3, 1) if channels_last else grained


def speech(rng: np.random.Generator, shape: Shape) -> Array:
    """A gliding tone with overtones and a breathing loudness, in [-0.5, 0.5], along the last axis."""
    length = shape[-1]
    seconds = np.arange(length) / 16000.0
    pitch = 110.0 + 60.0 * rng.random()
    phase = 2 * np.pi * (pitch * seconds + 15.0 * seconds * seconds)
    voice = sum(np.sin(k * phase) / k for k in range(1, 9))
    loudness = 0.5 + 0.5 * np.sin(2 * np.pi * 3.0 * seconds)
    noise = rng.standard_normal(shape)
    return 0.2 * voice * loudness + 0.01 * noise


def _stretch(cells: Array, size: int, *, axis: int) -> Array:
    """Linear interpolation along one axis."""
    at = np.linspace(0.0, cells.shape[axis] - 1.0, size)
    low = np.minimum(at.astype(np.int64), cells.shape[axis] - 2)
    shape = [1] * cells.ndim
    shape[axis] = size
    part = (at - low).reshape(shape)
    return np.take(cells, low, axis=axis) * (1.0 - part) + np.take(cells, low + 1, axis=axis) * part
