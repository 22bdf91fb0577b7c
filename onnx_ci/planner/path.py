"""From no loss to the most: the order in which tensors take smaller forms, by bytes saved per harm done."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True)
class Option:
    """One form of one tensor: what it takes, and the harm it is expected to do."""

    form: int
    nbytes: float
    harm: float


@dataclass(frozen=True)
class Move:
    """A tensor takes a smaller form than it had."""

    tensor: str
    form: int
    saves: float
    harm: float

    @property
    def price(self) -> float:
        return self.harm / self.saves


def moves(tensors: Mapping[str, tuple[float, Sequence[Option]]]) -> list[Move]:
    """All moves worth making, the cheapest first. Of each tensor (its bytes now, its options) they come in
    the order of its sizes, since each costs more per byte than the one before it."""
    found = [move for name, (nbytes, options) in tensors.items() for move in _ladder(name, nbytes, options)]
    # The sort keeps equal prices in the order of the model, and each tensor's moves in theirs.
    return sorted(found, key=lambda move: move.price)


def _ladder(name: str, nbytes: float, options: Sequence[Option]) -> list[Move]:
    """The options on the lower hull of harm over bytes saved: all others are beaten by a mixture."""
    made: list[Move] = []
    at, harm = nbytes, 0.0
    left = [option for option in options if option.nbytes < at]
    while left:
        best = min(
            left, key=lambda option: (max(0.0, option.harm - harm) / (at - option.nbytes), option.nbytes)
        )
        made.append(Move(name, best.form, at - best.nbytes, max(0.0, best.harm - harm)))
        at, harm = best.nbytes, max(harm, best.harm)
        left = [option for option in left if option.nbytes < at]
    return made


def least_harm(
    tensors: Mapping[str, tuple[float, Sequence[Option]]], needed: float, most: int = 20000
) -> dict[str, int] | None:
    """The mix with the least harm of all that save as much as is needed; None where there are too many to
    go through, or none does. Of few tensors the path has few points, and most mixes lie between them."""
    ways = [[None, *options] for _, options in tensors.values()]
    if math.prod(map(len, ways)) > most:
        return None
    best, least = None, math.inf
    for chosen in product(*ways):
        pairs = [(size, one) for (size, _), one in zip(tensors.values(), chosen, strict=True) if one]
        harm = sum(one.harm for _, one in pairs)
        if harm < least and sum(size - one.nbytes for size, one in pairs) >= needed:
            best, least = chosen, harm
    return None if best is None else {n: one.form for n, one in zip(tensors, best, strict=True) if one}


def mixed(path: Sequence[Move]) -> dict[str, int]:
    """The form of each tensor after some moves; tensors that did not move are not in it."""
    return {move.tensor: move.form for move in path}
