"""How outputs are put beside those of the original: one by one, one by one with random nodes seeded alike, or
by their distribution over many runs."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import onnx

from onnx_ci.errors import ModelError
from onnx_ci.policy.schema import Limits, Tolerance
from onnx_ci.shown import Noise, OutputDelta
from onnx_ci.verify.batches import batched
from onnx_ci.verify.bench import Bench
from onnx_ci.verify.client import Feeds, RunFailed, Runner
from onnx_ci.verify.compare import Outputs, compare_outputs, same_outputs
from onnx_ci.verify.distribution import Distribution, Lot, Told, Unclear
from onnx_ci.verify.dtypes import Array, is_text
from onnx_ci.verify.lots import drawn
from onnx_ci.verify.noise import OTHER_DRAWS, Noisy, measured, refuse_gross
from onnx_ci.verify.randomness import random_nodes
from onnx_ci.verify.seeding import Seeding, Unmatched

_SCARCE = ("timeout", "memory")  # what one thread, or a second session, may lack


@dataclass(frozen=True)
class Compared:
    """Each output of a candidate, and how it was compared."""

    method: str
    told: Sequence[Told]

    @property
    def deltas(self) -> tuple[OutputDelta, ...]:
        return tuple(one.delta for one in self.told)


class Footing(ABC):
    """The original as it is run. A seeded copy of it stands in where its nodes draw random numbers."""

    def __init__(
        self,
        runner: Runner,
        original: Path,
        proto: onnx.ModelProto,
        *,
        limits: Limits,
        root: Path,
        offset: int = 0,
        like: Footing | None = None,
    ) -> None:
        """`offset` is for other draws; `like` is one for the same original, whose noise was measured."""
        self.runner = runner
        self.original = original
        self.proto = proto
        self.limits = limits
        self.root = root
        self.like = like
        self.seeding = Seeding(proto, offset)
        self._distributions: dict[tuple[Runner, Tolerance], Distribution | Unclear] = {}

    @abstractmethod
    def reference(self) -> list[dict[str, Array]]:
        """The outputs of the original."""

    @abstractmethod
    def feeds(self) -> Sequence[Feeds]:
        """The inputs they are of."""

    @abstractmethod
    def fed(self, extra: Feeds | None) -> tuple[Sequence[Feeds], Collection[str]]:
        """Feeds for either model, and the names of those that only one of them may ask for."""

    @cached_property
    def own(self) -> Path:
        """The file that is run for the original."""
        if not self.seeding:
            return self.original
        copy = self.runner.folder() / "original.onnx"
        self.seeding.write(self.original, copy, self.root)
        return copy

    @cached_property
    def batched(self) -> frozenset[str]:
        """Outputs with an answer for each member of a batch."""
        return batched(self.proto, self.feeds(), self.reference())

    @property
    def noise(self) -> tuple[Noise, ...]:
        """How far each output of the original is from itself."""
        return self.like.noise if self.like is not None else self._noise

    @cached_property
    def _noise(self) -> tuple[Noise, ...]:
        try:
            return measured(self.reference(), self._again)
        except RunFailed as error:
            raise ModelError(
                f"it ran once, and not a second time: {error.message}", code=error.code
            ) from None

    def _again(self, samples: int, other_threads: bool) -> Outputs:
        """The first samples once more, in a new session."""
        feeds = self.feeds()[:samples]
        run = partial(self.runner.run, self.own, feeds, limits=self.limits, seed=OTHER_DRAWS)
        try:
            return run(other_threads=other_threads)
        except RunFailed as error:
            if other_threads and error.kind in _SCARCE:
                return run()
            raise

    def refuse_gross(self) -> None:
        """Raise where no single run of the original is a reference."""
        refuse_gross(self.noise, random_nodes(self.proto))

    def compared(self, candidate: Path, tolerance: Tolerance, extra: Feeds | None = None) -> Compared:
        """Raises RunFailed for the candidate, Unclear where no comparison would mean anything."""
        try:
            self.refuse_gross()
            found = self._one_by_one(candidate, tolerance, extra)
        except Noisy:
            found = None
        drawn = self._drawn(found) if found else ()
        if found and not drawn:
            return found
        other = self._by_distribution(candidate, tolerance, extra)
        kept = {one.delta.name: one for one in found.told if one.delta.name not in drawn} if found else {}
        return Compared(other.method, [kept.get(one.delta.name, one) for one in other.told])

    def _drawn(self, found: Compared) -> set[str]:
        """The outputs beyond the tolerance, if all of them are whole numbers in a random model: of a coin,
        the least rounding turns one throw or another, and how often it falls on which side is what counts."""
        failing = {one.delta.name for one in found.told if one.delta.problem}
        values = [outputs[name] for outputs in self.reference() for name in failing if name in outputs]
        return failing if found.method == "seeded" and all(map(_is_whole, values)) else set()

    def _one_by_one(self, candidate: Path, tolerance: Tolerance, extra: Feeds | None) -> Compared | None:
        """None where random nodes are others, or may be, and that shows."""
        method, certain = "seeded" if self.seeding else "plain", True
        try:
            with self._seeded(candidate) as (path, certain):
                outputs = self.run(path, extra)
        except Unmatched:
            if self._shows:
                return None
            method, outputs = "plain", self.run(candidate, extra)
        deltas = compare_outputs(self.reference(), outputs, tolerance, batched=self.batched)
        if not certain and any(delta.problem for delta in deltas):
            return None
        return Compared(method, [Told(delta, apart=not delta.exact) for delta in deltas])

    @contextmanager
    def _seeded(self, model: Path) -> Iterator[tuple[Path, bool]]:
        """A model with the seeds of the original's nodes, and whether it is certain which is which."""
        if not self.seeding:
            yield model, True
            return
        folder = self.runner.folder()
        try:
            try:
                certain = self.seeding.write(model, folder / "seeded.onnx", self.root)
            except ModelError as error:
                raise RunFailed("error", error.message, stage="load") from None
            yield folder / "seeded.onnx", certain
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @cached_property
    def _shows(self) -> bool:
        """Whether random numbers reach an output: an input may scale them to nothing."""
        feeds, _ = self.fed(None)
        try:
            runs = [self.runner.run(self.original, feeds, limits=self.limits, seed=seed) for seed in (0, 1)]
        except RunFailed:
            return True
        return not same_outputs(*runs)

    def _by_distribution(self, candidate: Path, tolerance: Tolerance, extra: Feeds | None) -> Compared:
        key = (self.runner, tolerance)
        if key not in self._distributions:
            self._distributions[key] = self._distribution(tolerance)
        known = self._distributions[key]
        if isinstance(known, Unclear):
            raise known
        return Compared("distribution", known.compare(partial(self._draw, candidate, extra)))

    def _distribution(self, tolerance: Tolerance) -> Distribution | Unclear:
        try:
            return Distribution(partial(self._draw, self.original, None), tolerance)
        except Unclear as error:
            return error
        except RunFailed as error:
            return Unclear(f"its outputs are random, and many runs of it failed: {error.message}")

    def _draw(self, model: Path, extra: Feeds | None, runs: int, seed: int) -> Lot:
        feeds, spare = self.fed(extra)
        return drawn(self.runner, model, feeds, runs=runs, seed=seed, limits=self.limits, spare=spare)

    def run(self, model: Path, extra: Feeds | None = None) -> list[dict[str, Array]]:
        feeds, spare = self.fed(extra)
        return self.runner.run(model, feeds, limits=self.limits, spare=spare)

    def bench(self, model: Path) -> Bench:
        """A session for trials of a model that was made of the original."""
        feeds, spare = self.fed(None)
        return Bench(self.runner, model, feeds, limits=self.limits, spare=spare, seeding=self.seeding)


def _is_whole(values: Array) -> bool:
    return not is_text(values.dtype) and bool(np.array_equal(values, np.round(values)))
