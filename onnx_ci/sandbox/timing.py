"""How long a model takes against another: runs in turns, and how sure one can be of the ratio."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from statistics import median

from onnx_ci.results import Latency

ENOUGH = 2.0  # seconds of timing, where nothing is to be decided or that is plain already
PATIENCE = 20.0  # seconds after which it has to be enough
LEAST, PLENTY, MOST = 5, 200, 2000  # rounds: always, instead of ENOUGH, instead of PATIENCE
TAIL = 40  # one chance in so many that a ratio lies below its interval, and as many above: 95% confidence


def latency_of(before: Sequence[float], after: Sequence[float]) -> Latency:
    """The median of the ratios round by round: what slows a machine down slows both runs of a round.

    The interval is that of order statistics, which holds whatever the times are distributed like; with
    fewer than six rounds it is all that was seen.
    """
    ratios = sorted(b / a if a else 1.0 for a, b in zip(before, after, strict=True))
    outside = _outside(len(ratios))
    return Latency(
        before=median(before),
        after=median(after),
        ratio=median(ratios),
        low=ratios[outside],
        high=ratios[-1 - outside],
        rounds=len(ratios),
    )


def is_settled(latency: Latency, limit: float) -> bool:
    """Whether it is plain on which side of a limit the ratio lies."""
    return latency.low > limit or latency.high <= limit


def _outside(count: int) -> int:
    """How many of so many values may be left out on either side of an interval for their median.

    The median is below the k-th smallest of n values as seldom as n coins show fewer than k heads.
    """
    left_out, chance, ways = 0, 1, 2**count
    while (chance + math.comb(count, left_out + 1)) * TAIL <= ways:
        left_out += 1
        chance += math.comb(count, left_out)
    return left_out


def take_turns(runs: Sequence[Callable[[], object]], limit: float | None) -> list[list[float]]:
    """The seconds of each of two runs, round by round, each first in every other round.

    With a limit it goes on until it is plain on which side of that they are. That is looked at now and
    then and not after each round: who looks often enough sees by chance what he wants to see.
    """
    for warm_up in runs:
        warm_up()
    taken: list[list[float]] = [[] for _ in runs]
    began, look = time.perf_counter(), 1
    while True:
        order = range(len(runs)) if len(taken[0]) % 2 == 0 else reversed(range(len(runs)))
        for index in order:
            taken[index].append(_seconds(runs[index]))
        spent, count = time.perf_counter() - began, len(taken[0])
        if spent > PATIENCE or count >= MOST:
            return taken
        if count >= LEAST and (spent > look * ENOUGH or count >= look * PLENTY):
            if limit is None or is_settled(latency_of(*taken), limit):
                return taken
            look += 1


def _seconds(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began
