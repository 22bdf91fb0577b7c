"""Which attempt is next: usual sizes first, then sizes that follow from how those failed.

Open sizes shrink after a run that took too much time or memory. After an error, sizes that it names are
tried; after an error or an empty output, sizes grow. What a dimension is called does not matter there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import permutations
from math import prod
from typing import Literal

from onnx_ci.inputs import patterns
from onnx_ci.inputs.dims import STEPS, Axis
from onnx_ci.inputs.generate import Attempt, Deriver, too_large
from onnx_ci.sandbox.exchange import is_float

Sizes = Mapping[Axis, int]

_MOST_TRIES = 80  # after those with the usual sizes
_SHRINK, _GROW = 8, 4
_LONGEST = 1 << 18
_MOST_ELEMENTS = 1 << 22  # of inputs that grew
_MOST_NUMBERS = 6  # of one message
_NO_SIZE = re.compile(r"'[^']*'|\S+\.(?:h|cc|cpp):\d+|\b0x[0-9a-f]+")  # names, and lines of source
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")


class SizeSearch:
    """Attempts to run, in order. Whoever runs them tells how they failed, which decides what follows."""

    def __init__(self, deriver: Deriver, *, wide: bool = True) -> None:
        self.deriver = deriver
        self.wide = wide  # whether numbers may be far from zero
        self._mode: Literal["usual", "shrink", "follow", "grow"] = "usual"
        self._first: tuple[Attempt, str] | None = None  # that failed, and what was said
        self._waiting: list[Attempt] = []
        self._known: set[str] = set()  # errors, without their numbers
        self._seen: set[str] = set()  # shapes

    def __iter__(self) -> Iterator[Attempt]:
        for attempt in usual_attempts(self.deriver, wide=self.wide):
            if self._mode != "usual":
                break
            yield attempt
        if self._mode == "usual" and self._first is not None:
            self._mode = "follow"
            self._follow(*self._first)
        for _ in range(_MOST_TRIES):
            if not self._waiting:
                break
            yield self._waiting.pop(0)

    def can_shrink(self, attempt: Attempt) -> bool:
        """Whether something smaller would follow, should this one take too long."""
        return max(self.deriver.open_sizes(attempt).values(), default=1) > 1

    def failed(self, attempt: Attempt, message: str) -> None:
        """Learn from an error."""
        if self._mode == "usual":
            self._first = self._first or (attempt, message)
        elif self._mode != "grow":
            self._mode = "follow"
            self._follow(attempt, message)

    def was_scarce(self, attempt: Attempt) -> None:
        """Divide the largest open size: the run took too much time or memory."""
        if self._mode in ("usual", "shrink"):
            self._mode = "shrink"
            sizes = self.deriver.open_sizes(attempt)
            largest = max(sizes, key=lambda axis: sizes[axis], default=None)
            if largest is not None:
                self._add(attempt, [{largest: sizes[largest] // _SHRINK or 1}])

    def was_empty(self, attempt: Attempt) -> None:
        """Grow: it ran, and gave nothing."""
        if self._mode != "grow":
            self._mode = "grow"
            self._waiting.clear()
            self._add(attempt, self._larger(attempt))

    def _follow(self, attempt: Attempt, message: str) -> None:
        """Try what an error names, and larger sizes; each error once, the latest first: it got further."""
        text = _NO_SIZE.sub("", message)
        kind = _NUMBER.sub("", text)
        if kind not in self._known:
            self._known.add(kind)
            named = [int(number) for number in dict.fromkeys(_NUMBER.findall(text))][:_MOST_NUMBERS]
            self._add(attempt, [*self._named(attempt, named), *self._larger(attempt)])

    def _named(self, attempt: Attempt, numbers: list[int]) -> Iterator[Sizes]:
        """Yield sizes that are named, multiples of these, and such that differ as two of these do, or as a
        quotient does: what is reshaped to rows of 1060 from 10 channels has 106 columns. First of all for
        axes whose own size is named."""
        sizes = self.deriver.open_sizes(attempt)
        axes = sorted(sizes, key=lambda axis: sizes[axis] not in numbers or sizes[axis] == 1)
        numbers = sorted(numbers, key=lambda number: number == 1)
        for axis in axes:
            yield from ({axis: number} for number in numbers)
            yield from ({axis: -(-sizes[axis] // number) * number} for number in numbers if number > 1)
        parts = {one // other for one, other in permutations(numbers, 2) if other > 1 and one % other == 0}
        yield from sorted(
            ({axis: sizes[axis] + part - other} for axis in axes for part in parts for other in numbers),
            key=lambda change: prod({**sizes, **change}.values()),
        )
        for axis in axes:
            for one, other in permutations(numbers, 2):
                yield {axis: sizes[axis] + one - other}
                if other and sizes[axis] * one % other == 0:
                    yield {axis: sizes[axis] * one // other}

    def _larger(self, attempt: Attempt) -> Iterator[Sizes]:
        """Yield all open sizes grown together a little, then each of them by more and more."""
        sizes = self.deriver.open_sizes(attempt)
        if len(sizes) > 1:
            yield {axis: size * _GROW for axis, size in sizes.items() if size > 1}
        for axis, size in sizes.items():
            while 0 < size <= _LONGEST // _GROW:
                size *= _GROW
                yield {axis: size}

    def _add(self, attempt: Attempt, changes: Iterable[Sizes]) -> None:
        """Put attempts with changed sizes before those that wait."""
        added = []
        for change in changes:
            if not change or not all(0 < size <= _LONGEST for size in change.values()):
                continue
            sized = replace(attempt, varied=False, sizes={**attempt.sizes, **change})
            shapes = self.deriver.shapes(sized)[0]
            key = str((shapes, sized.flag, sized.small))
            too_long = sum(map(prod, shapes.values())) > _MOST_ELEMENTS and self._mode != "shrink"
            if key not in self._seen and not too_long and too_large(self.deriver.inputs, shapes) is None:
                self._seen.add(key)
                added.append(sized)
        self._waiting = [*added, *self._waiting]


def usual_attempts(deriver: Deriver, *, wide: bool = True) -> Iterator[Attempt]:
    """Yield attempts with usual sizes; none with numbers far from zero unless they may be `wide`.

    Attempts that differ only in what this model does not have are not repeated.
    """
    inputs, roles = deriver.inputs, deriver.roles
    has_flags = any(i.dtype == bool for i in inputs)
    has_guesses = any(i.dtype.kind in "iu" and roles[i.name].is_guessed for i in inputs)
    has_wide = deriver.spec.count > patterns.WIDE and any(is_float(i.dtype) for i in inputs)
    seen: set[str] = set()
    derived, refused = False, None
    for attempt in _attempts():
        attempt = replace(attempt, wide=attempt.wide and wide)
        shapes = deriver.shapes(attempt)
        flags = has_flags and (attempt.flag, attempt.varied)
        key = str((shapes, flags, has_guesses and attempt.small, has_wide and attempt.wide))
        if key in seen:
            continue
        seen.add(key)
        refusal = next(filter(None, (too_large(inputs, sample) for sample in shapes)), None)
        if refusal is None:
            derived = True
            yield attempt
        else:
            refused = refused or refusal
    if refused is not None and not derived:
        raise refused


def _attempts() -> Iterator[Attempt]:
    for step in range(STEPS):
        for past in (0, 1):
            first = Attempt(step=step, past=past, small=step > 1)
            yield first
            yield replace(first, varied=False)
            # A decoder with two branches wants the one without a cache as long as the cache is empty.
            yield replace(first, varied=False, flag=past > 0)
            yield replace(first, varied=False, flag=past == 0)
            yield replace(first, varied=False, wide=False)
            yield replace(first, varied=False, small=True)
