"""Series of measurements over time, several at once: heartbeats, movements, hum, and next to nothing."""

from __future__ import annotations

import numpy as np

from onnx_ci.sandbox.exchange import Array

_RATE = 250.0  # readings in a second
_KINDS = 4
_LONGEST = 1 << 20  # readings that are drawn; a longer series repeats
# The waves of a heartbeat: when, in seconds from its peak, how long, and how high.
_WAVES = (
    (-0.17, 0.025, 0.12),
    (-0.03, 0.01, -0.15),
    (0.0, 0.011, 1.0),
    (0.03, 0.01, -0.25),
    (0.25, 0.04, 0.3),
)


def series(rng: np.random.Generator, leads: int, length: int, index: int) -> Array:
    """Draw (leads, length): another kind with each sample."""
    drawn = min(length, _LONGEST)
    seconds = np.arange(drawn) / _RATE
    kind = index % _KINDS
    if kind == 1:
        rows = _movement(rng, leads, seconds)
    elif kind == 2 and index % (2 * _KINDS) == 2:
        rows = rng.standard_normal((leads, drawn))
    elif kind == 2:
        rows = np.zeros((leads, drawn))
    else:
        rows = _heartbeats(rng, leads, seconds, uneven=0.02 if kind == 0 else 0.25)
    rows = rows + 0.01 * rng.standard_normal(rows.shape)
    return np.asarray(rows[:, np.arange(length) % drawn]) if drawn else rows


def _heartbeats(rng: np.random.Generator, leads: int, seconds: Array, *, uneven: float) -> Array:
    """Draw what electrodes at several places see of one heart, on a line that sways with the breath."""
    beat = np.zeros(len(seconds))
    period, peak = rng.uniform(0.6, 1.0), rng.uniform(0.0, 0.6)
    while len(seconds) and peak < seconds[-1] + 1.0:
        near = slice(*np.searchsorted(seconds, (peak - 0.5, peak + 0.5)))
        for at, wide, high in _WAVES:
            beat[near] += high * np.exp(-(((seconds[near] - peak - at) / wide) ** 2) / 2)
        peak += period * (1.0 + uneven * rng.uniform(-1.0, 1.0))
    sway = 0.1 * np.sin(2 * np.pi * (0.25 * seconds + rng.random()))
    return np.asarray(rng.uniform(-0.5, 1.3, (leads, 1)) * beat + sway)


def _movement(rng: np.random.Generator, leads: int, seconds: Array) -> Array:
    """Draw steps and slow turns, each axis with an offset of its own, as gravity is."""
    pace = rng.uniform(1.5, 2.5)
    rows = rng.uniform(-1.0, 1.0, (leads, 1)) * np.ones(len(seconds))
    for overtone in (0.1, 1.0, 2.0, 3.0):
        phase, height = rng.random((leads, 1)), rng.uniform(0.1, 0.6, (leads, 1)) / max(1.0, overtone)
        rows += height * np.sin(2 * np.pi * (overtone * pace * seconds + phase))
    return np.asarray(rows)
