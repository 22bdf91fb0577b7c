"""Sounds that models are fed, a voice, music, hiss, next to nothing, and their spectra; and series of
measurements over time, several at once: heartbeats, movements, hum."""

from __future__ import annotations

from functools import cache

import numpy as np

from onnx_ci.inputs.graph import Shape
from onnx_ci.sandbox.exchange import Array

_RATE = 16000
_OVERTONES = 30
_VOWELS = 6.0  # in a second
_HISS = 0.05  # of full scale
_HUSH = 0.001
_FLOOR = 3e-5  # what 16 bits leave of full scale
_NOTES = 4.0  # in a second
_FADED = 2.0  # seconds after which a note is not heard any more
_WINDOW, _STEP = 400, 160  # samples of one spectrum, and from one to the next: 25 and 10 ms
_FEWEST_BINS = 192  # more bands than this are the spectrum itself, fewer are of the mel scale
_MOST_ROWS = 16  # that are drawn; further ones are the same, begun elsewhere
_BLOCK = 8192  # samples of a voice that are computed at a time: they stay in the processor's cache
_LONGEST = 1 << 22  # samples that are drawn; a longer sound repeats


def sound(rng: np.random.Generator, shape: Shape, index: int) -> Array:
    """Draw sounds along the last axis, about in [-0.5, 0.5]: of another kind with each sample."""
    count, length = int(np.prod(shape[:-1], dtype=np.int64)), shape[-1]
    rows = [_row(rng, length, index) for _ in range(min(count, _MOST_ROWS))]
    rows += [np.roll(rows[n % _MOST_ROWS], n * length // count) for n in range(_MOST_ROWS, count)]
    return np.stack(rows).reshape(shape) if rows else np.zeros(shape)


def spectra(rng: np.random.Generator, frames: int, bands: int, index: int) -> Array:
    """Draw the logarithm of a sound's spectrum over time, (frames, bands): as it is, or with a mean of 0 and
    a deviation of 1, in turn."""
    samples = _row(rng, min(frames, _LONGEST // _STEP) * _STEP + _WINDOW, index // 2)
    starts = np.arange(0, len(samples) - _WINDOW, _STEP)[:, None]
    power = np.abs(np.fft.rfft(samples[starts + np.arange(_WINDOW)] * np.hanning(_WINDOW), 2 * _WINDOW)) ** 2
    at = np.linspace(0, power.shape[1] - 1, bands)
    if bands < _FEWEST_BINS:
        at = (np.exp(np.linspace(0, np.log(13.0), bands)) - 1) / 12 * (power.shape[1] - 1)
    low = np.minimum(at.astype(np.int64), power.shape[1] - 2)
    logarithm = np.log(power[:, low] * (1 - (at - low)) + power[:, low + 1] * (at - low) + 1e-8)
    if index % 2 == 0:
        logarithm = (logarithm - logarithm.mean()) / (logarithm.std() + 1e-6)
    return np.resize(logarithm, (frames, bands))


def _row(rng: np.random.Generator, length: int, index: int) -> Array:
    drawn = min(length, _LONGEST)
    seconds = np.arange(drawn) / _RATE
    kind = index % 4
    if kind == 1:
        row = _music(rng, seconds)
    elif kind == 2:
        row = _HISS * rng.standard_normal(drawn)
    else:
        row = _speech(rng, seconds)
    if index % 8 == 7:
        row = row * _HUSH
    return np.resize(row, length)


def _speech(rng: np.random.Generator, seconds: Array) -> Array:
    """Draw vowels that glide into each other at a wavering pitch, with consonants and pauses between them.

    Detectors take it for a voice, which they do not take a chord for.
    """
    pitch = (95.0 + 90.0 * rng.random()) * (1.0 + 0.08 * np.sin(2 * np.pi * (2.0 * seconds + rng.random())))
    phase = 2 * np.pi * np.cumsum(pitch) / _RATE
    low, high = _glide(rng, seconds, 300.0, 750.0), _glide(rng, seconds, 900.0, 2300.0)
    voice = np.zeros(len(seconds))
    for start in range(0, len(seconds), _BLOCK):
        part = slice(start, start + _BLOCK)
        for overtone in range(1, _OVERTONES):
            at = overtone * pitch[part]
            formants = 1 / (1 + ((at - low[part]) / 90) ** 2) + 0.5 / (1 + ((at - high[part]) / 140) ** 2)
            voice[part] += formants * np.sin(overtone * phase[part])
    loudness = np.clip(_glide(rng, seconds, -0.2, 1.1), 0.0, 1.0)
    consonants = np.clip(_glide(rng, seconds, -1.0, 0.4), 0.0, 1.0) * rng.standard_normal(len(seconds))
    speech: Array = 0.15 * voice * loudness + 0.1 * consonants + 0.005 * rng.standard_normal(len(seconds))
    return speech


def _glide(rng: np.random.Generator, seconds: Array, low: float, high: float) -> Array:
    """Go from one value to the next, several in a second."""
    count = 2 + int(_VOWELS * len(seconds) / _RATE)
    return np.asarray(np.interp(seconds * _VOWELS, np.arange(count), rng.uniform(low, high, count)))


def _music(rng: np.random.Generator, seconds: Array) -> Array:
    """Draw notes of a scale that are struck and die away, two at a time, and a beat."""
    music = np.zeros(len(seconds))
    scale = 220.0 * 2 ** (np.array([0, 2, 4, 5, 7, 9, 11, 12]) / 12)
    for number in range(1 + int(len(seconds) / _RATE * _NOTES)):
        start = int(number * _RATE / _NOTES)
        heard = music[start : start + int(_FADED * _RATE)]
        for pitch in rng.choice(scale, 2, replace=False):
            for overtone in _note(pitch)[1:]:
                heard += overtone[: len(heard)]
        if number % 2 == 0:
            heard += 0.3 * _note(220.0)[0][: len(heard)] ** 8 * rng.standard_normal(len(heard))
    # No recording is without some noise: what is exactly nothing between notes, a logarithm tears apart.
    return 0.1 * music + _FLOOR * rng.standard_normal(len(seconds))


@cache
def _note(pitch: float) -> list[Array]:
    """Return how a note dies away, and its overtones."""
    since = np.arange(int(_FADED * _RATE)) / _RATE
    fading = np.exp(-4.0 * since)
    return [fading, *(fading / o * np.sin(2 * np.pi * o * pitch * since) for o in (1, 2, 3, 5))]


_READINGS = 250.0  # readings in a second
_SERIES_KINDS = 4
_LONGEST_SERIES = 1 << 20  # readings that are drawn; a longer series repeats
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
    drawn = min(length, _LONGEST_SERIES)
    seconds = np.arange(drawn) / _READINGS
    kind = index % _SERIES_KINDS
    if kind == 1:
        rows = _movement(rng, leads, seconds)
    elif kind == 2 and index % (2 * _SERIES_KINDS) == 2:
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
