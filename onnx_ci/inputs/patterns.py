"""Pictures and sounds that a trained model takes seriously: white noise makes it answer nothing."""

from __future__ import annotations

import numpy as np

from onnx_ci.inputs.graph import Shape
from onnx_ci.verify.dtypes import Array

_RATE = 16000
_OVERTONES = 30
_VOWELS = 6.0  # in a second
_CELLS = 7  # blobs across a picture
_LETTER = (8, 28)  # least and greatest height of a letter in pixels


def picture(rng: np.random.Generator, shape: Shape, *, channels_last: bool) -> Array:
    """Smooth blobs with some grain under lines of dark strokes, in [0, 1), for a shape of rank 4:
    something for those that look at surfaces, and for those that look for edges or for text."""
    count, height, width = shape[0], *(shape[1:3] if channels_last else shape[2:4])
    channels = shape[3] if channels_last else shape[1]
    grid = rng.random((count, channels, _CELLS, _CELLS))
    smooth = _stretch(_stretch(grid, height, axis=2), width, axis=3)
    drawn = 0.4 + 0.5 * smooth + 0.1 * rng.random(smooth.shape)
    for one in drawn:
        one *= 1.0 - 0.9 * _writing(rng, height, width)
    return drawn.transpose(0, 2, 3, 1) if channels_last else drawn


def speech(rng: np.random.Generator, shape: Shape) -> Array:
    """Vowels that glide into each other at a wavering pitch, louder and softer, about in [-0.5, 0.5], along
    the last axis: detectors take it for a voice, which they do not take a chord for."""
    seconds = np.arange(shape[-1]) / _RATE
    pitch = (95.0 + 90.0 * rng.random()) * (1.0 + 0.08 * np.sin(2 * np.pi * (2.0 * seconds + rng.random())))
    phase = 2 * np.pi * np.cumsum(pitch) / _RATE
    low, high = _glide(rng, seconds, 300.0, 750.0), _glide(rng, seconds, 900.0, 2300.0)
    voice = np.zeros(shape[-1])
    for overtone in range(1, _OVERTONES):
        at = overtone * pitch
        voice += (1 / (1 + ((at - low) / 90) ** 2) + 0.5 / (1 + ((at - high) / 140) ** 2)) * np.sin(
            overtone * phase
        )
    loudness = 0.6 + 0.4 * np.sin(2 * np.pi * (3.0 * seconds + rng.random()))
    return 0.15 * voice * loudness + 0.005 * rng.standard_normal(shape)


def _glide(rng: np.random.Generator, seconds: Array, low: float, high: float) -> Array:
    """From one value to the next, several in a second."""
    count = 2 + int(_VOWELS * len(seconds) / _RATE)
    return np.interp(seconds * _VOWELS, np.arange(count), rng.uniform(low, high, count))


def _writing(rng: np.random.Generator, height: int, width: int) -> Array:
    """Rows of boxes with a few bars in each, 1 where there is ink."""
    ink = np.zeros((height, width))
    top = int(rng.integers(0, height // 8 + 1))
    while top + _LETTER[0] < height:
        tall = int(rng.integers(_LETTER[0], max(_LETTER[0] + 1, min(height // 2, _LETTER[1]))))
        left = int(rng.integers(0, width // 6 + 1))
        while left + tall < width:
            _letter(rng, ink[top : top + tall, left : left + tall * 3 // 5])
            left += tall * 3 // 5 + max(1, tall // 6) * int(rng.integers(1, 4))
        top += tall * 8 // 5
    return ink


def _letter(rng: np.random.Generator, box: Array) -> None:
    thick = max(1, len(box) // 6)
    for _ in range(int(rng.integers(2, 5))):
        along = int(rng.integers(0, 2))
        at = int(rng.integers(0, box.shape[along]))
        bar = slice(at, at + thick)
        box[(bar, slice(None)) if along == 0 else (slice(None), bar)] = 1.0


def _stretch(cells: Array, size: int, *, axis: int) -> Array:
    """Linear interpolation along one axis."""
    at = np.linspace(0.0, cells.shape[axis] - 1.0, size)
    low = np.minimum(at.astype(np.int64), cells.shape[axis] - 2)
    shape = [1] * cells.ndim
    shape[axis] = size
    part = (at - low).reshape(shape)
    smooth: Array = np.take(cells, low, axis=axis) * (1.0 - part) + np.take(cells, low + 1, axis=axis) * part
    return smooth
