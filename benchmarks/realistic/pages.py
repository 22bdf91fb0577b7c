"""Pictures of writing: lines of digits and letters, tables and captchas, made of a 5x7 font."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
# Seven rows of five pixels a character, each row a number whose bits are the pixels.
FONT = {
    "0": (14, 17, 19, 21, 25, 17, 14),
    "1": (4, 12, 4, 4, 4, 4, 14),
    "2": (14, 17, 1, 2, 4, 8, 31),
    "3": (31, 2, 4, 2, 1, 17, 14),
    "4": (2, 6, 10, 18, 31, 2, 2),
    "5": (31, 16, 30, 1, 1, 17, 14),
    "7": (31, 1, 2, 4, 8, 8, 8),
    "A": (14, 17, 17, 31, 17, 17, 17),
    "C": (14, 17, 16, 16, 16, 17, 14),
    "E": (31, 16, 16, 30, 16, 16, 31),
    "H": (17, 17, 17, 31, 17, 17, 17),
    "L": (16, 16, 16, 16, 16, 16, 31),
    "N": (17, 25, 21, 19, 17, 17, 17),
    "O": (14, 17, 17, 17, 17, 17, 14),
    "P": (30, 17, 17, 30, 16, 16, 16),
    "T": (31, 4, 4, 4, 4, 4, 4),
    "X": (17, 17, 10, 4, 10, 17, 17),
    " ": (0, 0, 0, 0, 0, 0, 0),
}
WIDE, TALL = 6, 7  # pixels of a character with its gap


def word(rng: np.random.Generator, length: int) -> str:
    return "".join(rng.choice(list(FONT), length))


def ink(text: str, scale: int) -> Array:
    """1 where the text is, 0 elsewhere."""
    rows = [
        [FONT[letter][row] >> (4 - bit) & 1 for letter in text for bit in range(-1, 5)] for row in range(TALL)
    ]
    return np.kron(np.array(rows, np.float64), np.ones((scale, scale)))


def line(rng: np.random.Generator, height: int, width: int) -> Array:
    """One line of text on light paper, as large as fits, in [0, 1]."""
    scale = max(1, (height - 8) // TALL)
    text = ink(word(rng, max(1, (width - 8) // (WIDE * scale))), scale)
    top = (height - len(text)) // 2
    page = _paper(rng, height, width)
    page[top : top + len(text), 4 : 4 + text.shape[1]] *= 1 - 0.85 * text
    return page


def page(rng: np.random.Generator, height: int, width: int, *, table: bool = False) -> Array:
    """Lines of text of several sizes; with rules around cells where it is a table."""
    drawn, top = _paper(rng, height, width), 6
    while top + 3 * TALL < height:
        scale = int(rng.integers(1, 4))
        text = ink(word(rng, max(1, int(rng.uniform(0.3, 0.95) * (width - 12) / WIDE / scale))), scale)
        bottom = min(height, top + len(text))
        drawn[top:bottom, 6 : 6 + text.shape[1]] *= 1 - 0.85 * text[: bottom - top]
        top = bottom + 4 + int(rng.integers(0, 10))
        if table:
            drawn[top - 3 : top - 2, 2:-2] = 0.1
    if table:
        drawn[2:-2, 2 : width - 2 : max(20, width // 4)] = 0.1
    return drawn


def _paper(rng: np.random.Generator, height: int, width: int) -> Array:
    light = np.linspace(0.8, 1.0, width) * rng.uniform(0.9, 1.0)
    return np.clip(light + 0.02 * rng.standard_normal((height, width)), 0, 1)


def photo(rng: np.random.Generator, height: int, width: int) -> Array:
    """No writing at all: a few soft shapes."""
    y, x = np.mgrid[0:height, 0:width]
    field = np.zeros((height, width))
    for _ in range(6):
        size = rng.uniform(8, max(height, width) / 3)
        field += rng.uniform(-1, 1) * np.exp(
            -((y - rng.uniform(0, height)) ** 2 + (x - rng.uniform(0, width)) ** 2) / 2 / size**2
        )
    return np.clip(0.5 + 0.4 * field, 0, 1)


def coloured(rng: np.random.Generator, grey: Array, mean: float, deviation: float) -> Array:
    """One picture as a batch of one with three channels, normalized as networks want it."""
    tints = rng.uniform(0.85, 1.0, (3, 1, 1))
    return ((grey * tints - mean) / deviation)[None].astype(np.float32)
