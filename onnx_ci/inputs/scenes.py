"""Pictures that look like the world: scenes with things, people and faces, printed pages, lines of text.

Trained models answer noise with nothing. A photograph has surfaces that hide each other, light from one
side, and detail at every scale; that is drawn here, as arrays of (3, height, width) in [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from onnx_ci.inputs.patterns import stretch
from onnx_ci.sandbox.exchange import Array

Shape2 = tuple[int, int]
Outline = Callable[
    [Array, Array], Array
]  # how far inside a place is, by how far down and right of the centre

_LINE = (64, 2.5)  # most pixels down, and so many times more across: a line of text
_THINGS = 40
_SKIN = np.array([[0.94, 0.78, 0.67], [0.78, 0.57, 0.44], [0.45, 0.30, 0.23]])
_HAIR = np.array([0.45, 0.32, 0.22])
_LARGEST = 320  # pixels along the shorter side that are drawn; a larger picture is stretched
_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
# Five columns of seven dots for each character, the lowest bit on top.
_FONT = bytes.fromhex(
    "7e1111117e 7f49494936 3e41414122 7f4141221c 7f49494941 7f09090901 3e4149497a 7f0808087f 00417f4100"
    "2040413f01 7f08142241 7f40404040 7f020c027f 7f0408107f 3e4141413e 7f09090906 3e4151215e 7f09192946"
    "4649494931 01017f0101 3f4040403f 1f2040201f 3f4038403f 6314081463 0708700807 6151494543 3e5149453e"
    "00427f4000 4261514946 2141454b31 1814127f10 2745454539 3c4a494930 0171090503 3649494936 064949291e"
)


def scene(rng: np.random.Generator, height: int, width: int, *, people: int = 0) -> Array:
    """Draw things of all sizes in front of each other, and some people in front of them."""
    reach = min(height, width)
    if reach > _LARGEST:
        part = (height * _LARGEST // reach, width * _LARGEST // reach)
        return stretch(stretch(scene(rng, *part, people=people), height, axis=1), width, axis=2)
    canvas = _Canvas(rng, height, width)
    for _ in range(_THINGS):
        size = reach * 0.04 / (1.0 - 0.93 * rng.random())  # few are large, many are small
        canvas.thing((rng.random() * height, rng.random() * width), size)
    for _ in range(people):
        size = reach * rng.uniform(0.15, 0.6)
        canvas.person((rng.uniform(0.3, 0.6) * height, rng.uniform(0.2, 0.8) * width), size)
    picture = canvas.picture * (0.55 + 0.9 * _smooth(rng, (height, width), 2))
    return np.clip(picture + 0.01 * rng.standard_normal(picture.shape), 0.0, 1.0)


def page(rng: np.random.Generator, height: int, width: int) -> Array:
    """Draw a printed page: paper in uneven light, lines of text of two sizes, and a figure at times."""
    paper = (0.82 + 0.12 * rng.random()) * (0.85 + 0.15 * _smooth(rng, (height, width), 2))
    ink = np.zeros((height, width))
    letter = int(rng.integers(8, max(9, min(28, height // 6 + 1))))
    top, margin = int(letter * rng.uniform(0.3, 1.5)), int(rng.integers(2, max(3, width // 10)))
    while top + letter < height:
        tall = letter * 2 if rng.random() < 0.12 else letter
        if rng.random() < 0.9 and top + tall < height:
            _write(rng, ink[top : top + tall, margin : width - margin])
        top += tall * 8 // 5
    picture = np.repeat((paper * (1.0 - 0.85 * ink))[None], 3, axis=0)
    if rng.random() < 0.5 and min(height, width) >= 64:
        part = (height // 3, width // 3)
        at = (int(rng.integers(0, height - part[0])), int(rng.integers(0, width - part[1])))
        picture[:, at[0] : at[0] + part[0], at[1] : at[1] + part[1]] = scene(rng, *part)
    return np.clip(picture + 0.01 * rng.standard_normal(picture.shape), 0.0, 1.0)


def picture(rng: np.random.Generator, height: int, width: int, index: int) -> Array:
    """Draw a picture of another kind with each sample; a line of text where the shape is that of one.

    None is blank or noise: models are sure of these, and rounding shows on them as it does on no photograph.
    """
    if height <= _LINE[0] and width >= _LINE[1] * height:
        return text_line(rng, height, width)
    if index % 4 == 1:
        return page(rng, height, width)
    return scene(rng, height, width, people=(1, 0, 0, 3)[index % 4])


def text_line(rng: np.random.Generator, height: int, width: int) -> Array:
    """Draw one line of text as high as the picture, dark on light or light on dark."""
    ink = np.zeros((height, width))
    gap = max(1, height // 6)
    _write(rng, ink[gap : height - gap, gap:], whole=rng.random() < 0.5)
    colours = rng.random((2, 3)) * np.array([[0.3], [0.3]]) + np.array([[0.0], [0.7]])
    if rng.random() < 0.25:
        colours = colours[::-1]
    ground = colours[1][:, None, None] * (0.85 + 0.15 * _smooth(rng, (height, width), 3))
    line: Array = ground * (1.0 - ink) + colours[0][:, None, None] * ink
    return np.clip(line + 0.015 * rng.standard_normal(line.shape), 0.0, 1.0)


class _Canvas:
    """A picture that things are painted on, the farthest first."""

    def __init__(self, rng: np.random.Generator, height: int, width: int) -> None:
        self.rng = rng
        # Noise whose power falls with its frequency, as that of natural pictures does.
        self.grain = np.zeros((height, width))
        for cells in (3, 7, 17, 41):
            self.grain += (_smooth(rng, (height, width), cells) - 0.5) / cells**0.8
        self.picture = _colour(rng)[:, None, None] * (1.0 + self.grain)

    def thing(self, centre: Sequence[float], size: float) -> None:
        """Paint an ellipse or a box with soft edges, turned by some angle."""
        angle, ratio, boxy = self.rng.uniform(0, np.pi), self.rng.uniform(0.4, 1.0), self.rng.random() < 0.5

        def inside(down: Array, right: Array) -> Array:
            along = np.abs(down * np.cos(angle) + right * np.sin(angle))
            across = np.abs(right * np.cos(angle) - down * np.sin(angle)) / ratio
            far = np.maximum(along, across) if boxy else np.hypot(along, across)
            return np.asarray(np.clip(size - far, 0.0, 1.0))

        self._paint(centre, 1.5 * size, inside, _colour(self.rng), self.rng.uniform(0.5, 2.5))

    def person(self, head: tuple[float, float], size: float) -> None:
        """Paint shoulders, a head with hair, and a face in it."""
        rng = self.rng
        skin, hair = _SKIN[int(rng.integers(len(_SKIN)))], _HAIR * rng.uniform(0.2, 1.2)
        white, dark, red = np.full(3, 0.95), rng.random(3) * 0.3, np.array([0.7, 0.3, 0.3])
        parts = [(1.25, 0.0, 0.8, 0.85, _colour(rng)), (0.35, 0.0, 0.35, 0.18, skin * 0.85)]
        parts += [(-0.12, 0.0, 0.52, 0.42, hair), (0.0, 0.0, 0.46, 0.35, skin)]
        for side in (-0.14, 0.14):
            parts += [(-0.14, side, 0.02, 0.08, hair), (-0.07, side, 0.035, 0.065, white)]
            parts += [(-0.07, side, 0.032, 0.03, dark)]
        parts += [(0.06, 0.0, 0.07, 0.04, skin * 0.8), (0.2, 0.0, 0.03, 0.12, red)]
        for down, right, tall, wide, colour in parts:
            self._ellipse((head[0] + size * down, head[1] + size * right), size * tall, size * wide, colour)

    def _ellipse(self, centre: tuple[float, float], tall: float, wide: float, colour: Array) -> None:
        def inside(down: Array, right: Array) -> Array:
            return np.asarray(
                np.clip((1.0 - np.hypot(down / tall, right / wide)) * min(tall, wide), 0.0, 1.0)
            )

        self._paint(centre, max(tall, wide), inside, colour, 0.3)

    def _paint(
        self, centre: Sequence[float], reach: float, inside: Outline, colour: Array, texture: float
    ) -> None:
        """Paint what is inside an outline, as far as it is on the picture; its right side is in the light."""
        _, height, width = self.picture.shape
        top, left = (max(0, int(at - reach)) for at in centre)
        bottom, right = min(height, int(centre[0] + reach) + 1), min(width, int(centre[1] + reach) + 1)
        if top >= bottom or left >= right:
            return
        down = np.arange(top, bottom)[:, None] - centre[0]
        across = np.arange(left, right)[None, :] - centre[1]
        mask = inside(down, across)
        away = (
            int(self.rng.integers(0, max(1, height - bottom + top))),
            int(self.rng.integers(0, max(1, width - right + left))),
        )
        grain = self.grain[away[0] : away[0] + bottom - top, away[1] : away[1] + right - left]
        light = 1.0 + texture * grain + 0.2 * np.clip(across / max(reach, 1.0), -1.0, 1.0)
        box = self.picture[:, top:bottom, left:right]
        box += mask * (colour[:, None, None] * light - box)


def _colour(rng: np.random.Generator) -> Array:
    """Pick a colour as things have them: seldom a bright one."""
    return np.asarray(
        np.clip(rng.uniform(0.05, 0.95) + rng.uniform(0.0, 0.5) * (rng.random(3) - 0.5), 0.0, 1.0)
    )


def _smooth(rng: np.random.Generator, shape: Shape2, cells: int) -> Array:
    """Draw a random grid of so many cells, stretched over the picture."""
    grid = rng.random((cells + 1, cells + 1))
    return stretch(stretch(grid, shape[0], axis=0), shape[1], axis=1)


def _write(rng: np.random.Generator, ink: Array, *, whole: bool = False) -> None:
    """Write words from left to right, 1 where there is ink."""
    height, width = ink.shape
    wide = max(3, height * 5 // 7)
    left = 0
    while left + wide <= width:
        if not whole and rng.random() < 0.15:
            left += wide
            continue
        number = int(rng.integers(len(_CHARACTERS)))
        columns = np.frombuffer(_FONT[5 * number : 5 * number + 5], np.uint8)
        dots = (columns[None, :] >> np.arange(7)[:, None]) & 1
        glyph = stretch(stretch(dots.astype(np.float64), height, axis=0), wide, axis=1)
        ink[:, left : left + wide] = np.clip(2.0 * glyph - 0.5, 0.0, 1.0)
        left += wide + max(1, height // 7)
