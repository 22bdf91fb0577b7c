"""Sounds: voices, tones, noise and silence, and the spectra that denoisers read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def voice(rng: np.random.Generator, count: int, rate: int = 16000) -> Array:
    """Syllables: a pulse train through two or three resonances that change, with pauses between."""
    out = np.zeros(count)
    at = int(rng.integers(0, max(1, count // 8)))
    while at < count:
        length = int(rate * rng.uniform(0.08, 0.25))
        syllable = _syllable(rng, length, rate)[: count - at]
        out[at : at + len(syllable)] += syllable
        at += length + int(rate * rng.uniform(0.0, 0.08))
    return np.asarray(0.3 * out / max(1e-9, np.abs(out).max()) + 0.003 * rng.standard_normal(count))


def _syllable(rng: np.random.Generator, count: int, rate: int) -> Array:
    time = np.arange(count) / rate
    pitch = rng.uniform(90, 220)
    formants = rng.uniform([250, 800, 2000], [800, 2000, 3200])
    drawn = np.zeros(count)
    for harmonic in range(1, int(3800 / pitch)):
        frequency = harmonic * pitch
        gain = sum(1 / (1 + ((frequency - formant) / 120) ** 2) for formant in formants) + 0.02
        drawn += gain * np.sin(2 * np.pi * frequency * time * (1 + 0.02 * time) + rng.uniform(0, 6))
    return drawn * np.hanning(count)


def tone(rng: np.random.Generator, count: int, rate: int = 16000) -> Array:
    time = np.arange(count) / rate
    pitch = np.exp(rng.uniform(np.log(50), np.log(1500)))
    overtones = sum(np.sin(2 * np.pi * k * pitch * time) / k**1.5 for k in range(1, 6))
    return np.asarray(0.3 * overtones + 0.005 * rng.standard_normal(count))


def hiss(rng: np.random.Generator, count: int) -> Array:
    return 0.05 * rng.standard_normal(count)


def spectrum(sound: Array, bins: int) -> Array:
    """The logarithm of the power of each frame, half overlapping, as features a frame."""
    size = 2 * (bins - 1)
    frames = np.lib.stride_tricks.sliding_window_view(sound, size)[:: size // 2] * np.hanning(size)
    return np.asarray(np.log10(np.maximum(np.abs(np.fft.rfft(frames)) ** 2, 1e-12)))
