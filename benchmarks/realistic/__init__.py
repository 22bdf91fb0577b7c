"""Inputs that a known model would meet in use, to tell what a change really does to it.

Nothing here is shared with the verifier: what both got wrong would look right.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from realistic import images, signals, texts

Feeds = dict[str, NDArray[Any]]
Run = Callable[[Feeds], Feeds]
INPUTS: dict[str, Callable[[np.random.Generator, Run, Path], list[Feeds]]] = {
    "moonshine-encoder": signals.moonshine_encoder,
    "moonshine-decoder": texts.moonshine_decoder,
    "minilm-l3": texts.minilm,
    "albert-copies": texts.albert,
    "crepe": signals.crepe,
    "nsnet2": signals.nsnet2,
    "silero": signals.silero,
    "silero-legacy": signals.silero_legacy,
    "ppocr-rec": images.ppocr_rec,
    "ppocr-det": images.ppocr_det,
    "ppocr-cls": images.ppocr_cls,
    "slanet": images.slanet,
    "ddddocr": images.captchas,
    "ddddocr-old": images.captchas,
    "magika": texts.magika,
    "minimol": texts.minimol,
}
SEEDS = (20260417, 4)
LARGE = 20 << 20  # bytes; models that take longer are looked at with fewer samples


def inputs_for(name: str, path: Path, run: Run) -> list[Feeds]:
    """Samples of several sizes; `run` is the model itself, for those whose state is fed back."""
    seeds = SEEDS if path.stat().st_size < LARGE else SEEDS[:1]
    return [feeds for seed in seeds for feeds in INPUTS[name](np.random.default_rng(seed), run, path)]
