"""Inputs of the models that listen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from realistic import sounds

Feeds = dict[str, NDArray[Any]]
Run = Callable[[Feeds], Feeds]
Rng = np.random.Generator


def _float(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(np.float32)


def moonshine_encoder(rng: Rng, _: Run, __: Path) -> list[Feeds]:
    lengths = (12000, 16000, 26000)
    spoken = [{"input_values": _float(sounds.voice(rng, length))[None]} for length in lengths]
    both = np.stack([sounds.voice(rng, 16000), sounds.tone(rng, 16000)])
    return [*spoken, {"input_values": _float(both)}, {"input_values": _float(sounds.hiss(rng, 20000))[None]}]


def crepe(rng: Rng, _: Run, __: Path) -> list[Feeds]:
    """Frames of 1024, each with mean 0 and deviation 1."""
    kinds = (sounds.tone, sounds.tone, sounds.voice, sounds.voice, sounds.hiss)
    frames = np.stack([kind(rng, 1024) for kind in kinds])
    frames -= frames.mean(axis=1, keepdims=True)
    frames /= frames.std(axis=1, keepdims=True)
    return [{"input": _float(frames[at : at + count])} for at, count in ((0, 1), (1, 1), (2, 3))]


def nsnet2(rng: Rng, _: Run, __: Path) -> list[Feeds]:
    kinds = ((sounds.voice, 40000), (sounds.tone, 25000), (sounds.hiss, 25000), (sounds.voice, 60000))
    heard = [_float(sounds.spectrum(kind(rng, count), 513))[None] for kind, count in kinds]
    noisy = sounds.spectrum(sounds.voice(rng, 40000) + sounds.hiss(rng, 40000), 513)
    return [{"input": one} for one in (*heard, _float(noisy)[None])]


def silero(rng: Rng, run: Run, _: Path) -> list[Feeds]:
    """Both sampling rates, from the beginning and with the state that a voice has left."""
    samples: list[Feeds] = []
    for rate, count in ((16000, 576), (8000, 288)):
        for batch in (1, 3):
            state = np.zeros((2, batch, 128), np.float32)
            for kind in (sounds.hiss, sounds.voice, sounds.voice):
                heard = np.stack([kind(rng, count) for _ in range(batch)])
                feeds = {"input": _float(heard), "state": state, "sr": np.array(rate, np.int64)}
                samples.append(feeds)
                state = run(feeds)["stateN"]
    return samples


def silero_legacy(rng: Rng, run: Run, _: Path) -> list[Feeds]:
    samples: list[Feeds] = []
    for rate, count in ((16000, 512), (16000, 1536), (8000, 256), (8000, 768)):
        h = c = np.zeros((2, 1, 64), np.float32)
        for kind in (sounds.hiss, sounds.voice, sounds.voice):
            heard = _float(kind(rng, count))[None]
            feeds = {"input": heard, "sr": np.array(rate, np.int64), "h": h, "c": c}
            samples.append(feeds)
            found = run(feeds)
            h, c = found["hn"], found["cn"]
    return samples
