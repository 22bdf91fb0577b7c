"""Sounds that models are fed, a voice, music, hiss, next to nothing, and their spectra; and series of
measurements over time, several at once: heartbeats, movements, hum."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from onnx_ci.inputs.graph import Shape
from onnx_ci.sandbox.exchange import Array

_RATE = 16000
_FULL_RATE = 48000  # of sounds whose spectra have more bands than a window of speech has
_VOICED = 4000.0  # hertz, up to which a voice has overtones
_SYLLABLES = 8.0  # in a second
_SHORTEST_SPEECH = 1.0  # seconds that are drawn at least: of them, the loudest part is used
_SOFTEST = -1.0  # powers of ten: how loud a voice is
_STILLEST, _NOISIEST = -4.5, -2.0  # and what is heard beside it
_HISS = 0.05  # of full scale
_HUSH = 0.001
_FLOOR = 3e-5  # what 16 bits leave of full scale
_NOTES = 4.0  # in a second
_FADED = 2.0  # seconds after which a note is not heard any more
_WINDOW, _STEP = 0.025, 0.01  # seconds of one spectrum, and from one to the next
_FEWEST_BINS = 161  # so many bands, or more, are the spectrum itself; fewer are of the mel scale
_MOST_OF_SPEECH = 300  # bands; a spectrum with more reaches beyond 8 kHz
_MEL_BINS = 401  # of the spectrum that bands of the mel scale are taken from
_STEEPEST = 4.0  # powers of ten by which the highest bin of a recording is weaker than the lowest, at most
_MOST_ROWS = 16  # that are drawn; further ones are the same, begun elsewhere
_SLOW = 32  # samples in which formants hardly move
_BLOCK = 8192  # samples of a voice that are computed at a time: they stay in the processor's cache
_LONGEST = 1 << 22  # samples that are drawn; a longer sound repeats


def sound(rng: np.random.Generator, shape: Shape, index: int) -> Array:
    """Draw sounds along the last axis, about in [-0.5, 0.5]: of another kind with each sample."""
    count, length = int(np.prod(shape[:-1], dtype=np.int64)), shape[-1]
    rows = [_row(rng, length, index) for _ in range(min(count, _MOST_ROWS))]
    rows += [np.roll(rows[n % _MOST_ROWS], n * length // count) for n in range(_MOST_ROWS, count)]
    return np.stack(rows).reshape(shape) if rows else np.zeros(shape)


def spectra(rng: np.random.Generator, frames: int, bands: int, index: int) -> Array:
    """Draw the logarithm of a sound's spectrum over time, (frames, bands): with a mean of 0 and a deviation
    of 1, as it is, or to the base of 10, in turns that do not keep step with the kinds of sounds. High
    frequencies are weak, as rooms, microphones and codecs leave them."""
    bins = bands if bands >= _FEWEST_BINS else _MEL_BINS
    rate = _FULL_RATE if bands > _MOST_OF_SPEECH else _RATE
    step, window = int(rate * _STEP), min(int(rate * _WINDOW), 2 * (bins - 1))
    samples = _row(rng, min(frames, _LONGEST // step) * step + window, index, rate)
    starts = np.arange(0, len(samples) - window, step)[:, None]
    cut = samples[starts + np.arange(window)] * np.hanning(window)
    power = np.abs(np.fft.rfft(cut, 2 * (bins - 1))) ** 2
    power *= 10.0 ** (-rng.uniform(0.0, _STEEPEST) * np.linspace(0.0, 1.0, bins))
    if bands < _FEWEST_BINS:
        at = (np.exp(np.linspace(0, np.log(13.0), bands)) - 1) / 12 * (bins - 1)
        low = np.minimum(at.astype(np.int64), bins - 2)
        power = power[:, low] * (1 - (at - low)) + power[:, low + 1] * (at - low)
    manner = (index + index // 3) % 3
    logarithm = np.log10(power + 1e-12) if manner == 2 else np.log(power + 1e-8)
    if manner == 0:
        logarithm = (logarithm - logarithm.mean()) / (logarithm.std() + 1e-6)
    return np.resize(logarithm, (frames, bands))


def _row(rng: np.random.Generator, length: int, index: int, rate: int = _RATE) -> Array:
    drawn = min(length, _LONGEST)
    kind = index % 4
    if kind == 1:
        row = _music(rng, np.arange(drawn) / rate, rate)
    elif kind == 2:
        row = _HISS * rng.standard_normal(drawn)
    else:
        row = _speech(rng, drawn, rate)
    if index % 8 == 7:
        row = row * _HUSH
    return np.resize(row, length)


def _speech(rng: np.random.Generator, length: int, rate: int) -> Array:
    """Draw vowels that glide into each other at a wavering pitch, consonants and pauses between them, loud or
    soft, in a room that is more or less still. Of a short one, the loudest part.

    Detectors take it for a voice, which they do not take a chord for.
    """
    seconds = np.arange(max(length, int(_SHORTEST_SPEECH * rate))) / rate
    lowest = 95.0 + 110.0 * rng.random()
    pitch = lowest * (1.0 + 0.08 * np.sin(2 * np.pi * (2.0 * seconds + rng.random())))
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    formants = [
        (_glide(rng, seconds, *between), width, height)
        for between, width, height in (
            ((300.0, 750.0), 90, 1.0),
            ((900.0, 2300.0), 140, 0.5),
            ((2300.0, 3300.0), 200, 0.25),
        )
    ]
    voice = np.zeros(len(seconds))
    for start in range(0, len(seconds), _BLOCK):
        part = slice(start, start + _BLOCK)
        some = slice(start, start + _BLOCK + _SLOW, _SLOW)
        slow = [(middle[some], wide, high) for middle, wide, high in formants]
        voice[part] = _overtones(phase[part], pitch[some], slow, int(_VOICED / lowest))
    loudness = np.clip(_glide(rng, seconds, -0.6, 1.2), 0.0, 1.0)
    between_vowels = np.clip(_glide(rng, seconds, -2.0, 1.0), 0.0, 1.0) * (1.0 - loudness)
    consonants = between_vowels * np.diff(rng.standard_normal(len(seconds)), prepend=0.0)
    speech: Array = 10.0 ** rng.uniform(_SOFTEST, 0.0) * (0.15 * voice * loudness + 0.03 * consonants)
    speech = speech + 10.0 ** rng.uniform(_STILLEST, _NOISIEST) * rng.standard_normal(len(seconds))
    if len(speech) == length:
        return speech
    energy = np.cumsum(np.square(np.concatenate([[0.0], speech])))
    loudest = int(np.argmax(energy[length:] - energy[: len(energy) - length]))
    return speech[loudest : loudest + length]


def _overtones(phase: Array, pitch: Array, formants: Sequence[tuple[Array, int, float]], count: int) -> Array:
    """Add up the overtones below a number: each as loud as formants make it, which are given, as the pitch
    is, at every so many samples, since they change slowly."""
    total = np.zeros(len(phase))
    before, now, twice = np.zeros(len(phase)), np.sin(phase), 2 * np.cos(phase)
    for overtone in range(1, count):
        at = overtone * pitch
        heard = np.zeros(len(at))
        for middle, wide, high in formants:
            heard += high / (1 + ((at - middle) / wide) ** 2)
        heard = np.append(heard, heard[-1])
        between = heard[:-1, None] + np.diff(heard)[:, None] * (np.arange(_SLOW) / _SLOW)
        total += between.reshape(-1)[: len(phase)] * now
        before, now = now, twice * now - before
    return total


def _glide(rng: np.random.Generator, seconds: Array, low: float, high: float) -> Array:
    """Go from one value to the next, several in a second."""
    count = 2 + int(_SYLLABLES * seconds[-1])
    return np.asarray(np.interp(seconds * _SYLLABLES, np.arange(count), rng.uniform(low, high, count)))


def _music(rng: np.random.Generator, seconds: Array, rate: int) -> Array:
    """Draw notes of a scale that are struck and die away, two at a time, and a beat."""
    music = np.zeros(len(seconds))
    scale = 220.0 * 2 ** (np.array([0, 2, 4, 5, 7, 9, 11, 12]) / 12)
    for number in range(1 + int(len(seconds) / rate * _NOTES)):
        start = int(number * rate / _NOTES)
        heard = music[start : start + int(_FADED * rate)]
        for pitch in rng.choice(scale, 2, replace=False):
            for overtone in _note(pitch, rate)[1:]:
                heard += overtone[: len(heard)]
        if number % 2 == 0:
            heard += 0.3 * _note(220.0, rate)[0][: len(heard)] ** 8 * rng.standard_normal(len(heard))
    # No recording is without some noise: what is exactly nothing between notes, a logarithm tears apart.
    return 0.1 * music + _FLOOR * rng.standard_normal(len(seconds))


@cache
def _note(pitch: float, rate: int) -> list[Array]:
    """Return how a note dies away, and its overtones."""
    since = np.arange(int(_FADED * rate)) / rate
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
