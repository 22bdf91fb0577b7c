"""Inputs of the models that look at pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from realistic import pages

Feeds = dict[str, NDArray[Any]]
Rng = np.random.Generator


def ppocr_rec(rng: Rng, _: object, __: Path) -> list[Feeds]:
    return [{"x": pages.coloured(rng, pages.line(rng, 48, width), 0.5, 0.5)} for width in (96, 160, 320, 480)]


def ppocr_cls(rng: Rng, _: object, __: Path) -> list[Feeds]:
    lines = [pages.line(rng, 48, 192) for _ in range(4)]
    turned = [drawn[::-1, ::-1] if at % 2 else drawn for at, drawn in enumerate(lines)]
    batch = np.concatenate([pages.coloured(rng, drawn, 0.5, 0.5) for drawn in turned])
    return [{"x": batch[:1]}, {"x": batch[1:2]}, {"x": batch}]


def ppocr_det(rng: Rng, _: object, __: Path) -> list[Feeds]:
    sizes = ((192, 256), (256, 160), (320, 320))
    drawn = [pages.page(rng, *size) for size in sizes] + [pages.photo(rng, 192, 192)]
    return [{"x": pages.coloured(rng, one, 0.45, 0.23)} for one in drawn]


def slanet(rng: Rng, _: object, __: Path) -> list[Feeds]:
    drawn = [pages.page(rng, 488, 488, table=table) for table in (True, False)]
    return [{"x": pages.coloured(rng, one, 0.45, 0.23)} for one in drawn]


def captchas(rng: Rng, _: object, __: Path) -> list[Feeds]:
    draw: Callable[[Rng, int, int], NDArray[Any]] = pages.line
    drawn = [draw(rng, 64, width) for width in (120, 160, 200, 100)] + [pages.photo(rng, 64, 128)]
    return [{"input1": ((one - 0.5) / 0.5)[None, None].astype(np.float32)} for one in drawn]
