"""Random outputs compared by how they are distributed, over many runs of either model.

The means have to keep the tolerance, and so does the mean of one lot of the original's runs against that of
another: otherwise there are too few runs to tell. How draws lie about their means must not differ by more
than two lots of the original's do. That is measured on what changes from one run to the next, so that means
play no part in it, by characteristic functions, which have no bins to fall between: of single elements, and
of sums of many with random signs, so that what hangs together shows too."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from onnx_ci.errors import ModelError
from onnx_ci.policy.schema import Tolerance
from onnx_ci.sandbox.exchange import Array, is_float
from onnx_ci.verify.compare import ComparedOutputs, compare_outputs, identical, least_sqnr, tightened
from onnx_ci.verify.noise import WAY_OUT

STAGES = (256, 1024, 4096)  # runs of a lot: more only where fewer do not tell
# Far apart: onnxruntime's generators draw much the same numbers from seeds that are neighbours.
SEEDS = (15_485_863, 982_451_653, 472_882_027)
PATIENCE = 30.0  # seconds that the next stage may be expected to take
FINE = 0.1  # a difference of characteristic functions that has to be told: a sixth of the spread
SHUFFLES = 200
_ROOM = 1.1  # what shuffled lots show at the worst, and somewhat more
_GROUPS, _SUMS = 8, 16
_AT = np.array([0.35, 0.7, 1.4, 2.1])  # in units of the original's standard deviation
_RARE = 0.1  # of the typical spread: what hardly ever moves must not count for more when it does
JOINT = "all together"


@dataclass(frozen=True)
class Lot:
    """Some runs of one model: of each sample the means of outputs, and draws, a row each run."""

    means: list[dict[str, Array]]
    draws: list[dict[str, Array]]
    left_out: Mapping[str, str]


# Runs all samples of a model many times in one session: `Runner.draw`, given all but `runs` and `seed`.
Draw = Callable[..., tuple[list[dict[str, Array]], Mapping[str, str]]]


def sample_runs(draw: Draw, runs: int, seed: int) -> Lot:
    """Run a model so many times in a session that begins with a seed."""
    samples, left_out = draw(runs=runs, seed=seed)
    means = [_prefixed(sample, "mean ") for sample in samples]
    return Lot(means, [_prefixed(sample, "draws ") for sample in samples], left_out)


class Unclear(ModelError):
    """Too noisy for the tolerance, or of no fixed shape."""

    def __init__(self, message: str) -> None:
        super().__init__(
            message,
            hint=f"{WAY_OUT}; or widen the tolerance, with a score of your own: evaluate",
            code="OCI005",
        )


class Distribution:
    """Two lots of the original, as large as it takes to tell what the tolerance asks for."""

    def __init__(self, original: Draw, tolerance: Tolerance) -> None:
        self.tolerance = replace(tolerance, exact=False)
        if tolerance.exact:
            raise Unclear("it is random, so its outputs can't be bit-identical")
        for runs in STAGES:
            began = time.monotonic()
            self.runs = runs
            self.lots = (sample_runs(original, runs, SEEDS[0]), sample_runs(original, runs, SEEDS[1]))
            self.whole = _joined(*self.lots)
            self.blocks = [Blocks(draws) for draws in self.whole.draws]
            why = self._unclear()
            if not why:
                return
            if time.monotonic() - began > PATIENCE / 4:
                break
        raise Unclear(f"its outputs are random, and {why}")

    def _unclear(self) -> str:
        uneven = [f"output {name!r} {why}" for name, why in self.whole.left_out.items()]
        if uneven:
            return uneven[0]
        first, second = self.lots
        # Two thirds of the error that is allowed: at the very edge, chance would decide.
        strict = replace(tightened(self.tolerance, 4 / 9), top1=self.tolerance.top1)
        for delta in compare_outputs(first.means, second.means, strict):
            if delta.problem:
                return f"{self.runs} runs of it are too few to tell: output {delta.name!r}: {delta.problem}"
        blurs = [spread.blur for blocks in self.blocks for spread in blocks.spreads.values()]
        if max(blurs, default=0.0) > FINE:
            return f"{self.runs} runs of it are too few to tell how it is spread"
        return ""

    def compare(self, candidate: Draw) -> ComparedOutputs:
        """Compare each output of another model."""
        lot = sample_runs(candidate, self.runs, SEEDS[2])
        if lot.left_out:
            name, why = next(iter(lot.left_out.items()))
            raise Unclear(f"its outputs are random, and output {name!r} of the candidate {why}")
        floors = {d.name: d for d in compare_outputs(self.lots[0].means, self.lots[1].means, Tolerance())}
        spread = [blocks.differing(draws) for blocks, draws in zip(self.blocks, lot.draws, strict=True)]
        deltas, apart = [], set()
        for delta in compare_outputs(self.whole.means, lot.means, self.tolerance):
            if delta.name not in floors:
                continue
            kinds = (delta.name, JOINT)
            beyond = max((one[kind] for one in spread for kind in kinds if kind in one), default=0.0)
            if beyond > 0 or delta.max_abs > 2 * floors[delta.name].max_abs:
                apart.add(delta.name)
            delta = replace(delta, exact=False)
            if not delta.problem and beyond > _slack(self.tolerance):
                problem = f"its values are spread otherwise, {beyond:.2g} beyond what chance explains"
                delta = replace(delta, problem=problem, breaches=("spread",))
            deltas.append(delta)
        return ComparedOutputs("distribution", deltas, frozenset(apart))


class Blocks:
    """What changes between runs of one sample, two by two, in units of its spread."""

    def __init__(self, draws: Mapping[str, Array]) -> None:
        self.scales = {name: _scale(values) for name, values in draws.items()}
        count = max([2, *map(len, draws.values())])
        signs = np.random.default_rng(0)
        self.spreads: dict[str, Spread] = {}
        for name, changes in self._changes(draws).items():
            groups = 0 if name == JOINT else min(_GROUPS, changes.shape[1])
            self.spreads[name] = Spread(changes, groups, count, signs)

    def differing(self, draws: Mapping[str, Array]) -> dict[str, float]:
        """How much further the other draws are from these than chance explains; above zero if they are."""
        changes = self._changes(draws)
        return {name: spread.beyond_chance(changes[name]) for name, spread in self.spreads.items()}

    def _changes(self, draws: Mapping[str, Array]) -> dict[str, Array]:
        changes = {name: _changes(values) / self.scales[name] for name, values in draws.items()}
        if changes:
            changes[JOINT] = np.concatenate(list(changes.values()), axis=1)
        return changes


class Spread:
    """How changes from run to run are distributed, of one output or of all together."""

    def __init__(self, changes: Array, groups: int, count: int, signs: np.random.Generator) -> None:
        """`groups` of elements are looked at, and sums of all with random signs; `count` are the runs."""
        width = changes.shape[1]
        self.groups = groups
        self.sums = signs.choice([-1.0, 1.0], (width, _SUMS)) / max(width, 1) ** 0.5
        features = self._features(changes)
        self.means = features.mean(0)
        least = (2 / count) ** 0.5  # as if it had happened once: what never did may yet
        errors = np.maximum(features.std(0), least)
        chance = (6 / count) ** 0.5  # of these pairs of runs against half as many others
        limit = _by_chance(features, errors) * chance
        self.allowed = np.asarray(limit * errors + 1e-9)
        # What would not be noticed in any group of elements.
        self.blur = limit * float(errors[:groups].max(initial=0.0))

    def beyond_chance(self, changes: Array) -> float:
        """How much further other changes are from these than chance explains."""
        apart = np.abs(self.means - self._features(changes).mean(0))
        return float((apart - self.allowed).max(initial=-1.0))

    def _features(self, changes: Array) -> Array:
        """Of groups of elements the average, and of sums with random signs each."""
        features = [_waves(changes @ self.sums)]
        if self.groups:
            groups = np.array_split(_waves(changes), self.groups, axis=1)
            features = [*(group.mean(1, keepdims=True) for group in groups), *features]
        return np.concatenate(features, axis=1)


def _waves(changes: Array) -> Array:
    """They are as often up as down, so the cosine is all there is."""
    return np.asarray(np.cos(changes[:, :, None] * _AT))


def _by_chance(features: Array, errors: Array) -> float:
    """The largest difference between two halves of the same runs, in standard errors."""
    flat, errors = features.reshape(len(features), -1), errors.reshape(-1)
    flat = flat[:, errors > 0] / errors[errors > 0]
    half = len(flat) // 2
    sides = np.repeat([1.0, -1.0], half)
    ways = np.random.default_rng(0).permuted(np.tile(sides, (SHUFFLES, 1)), axis=1)
    apart = ways @ flat[: 2 * half] / max(half, 1)
    return _ROOM * float(np.abs(apart).max(initial=0.0)) * math.sqrt(half / 2)


def _scale(draws: Array) -> Array:
    spread = _changes(draws).std(0) / math.sqrt(2)
    typical = float(np.sqrt((spread**2).mean())) if spread.size else 0.0
    tiny = 1e-6 * float(np.abs(_finite(draws)).max(initial=0.0)) + 1e-30
    return np.asarray(np.maximum(spread, max(_RARE * typical, tiny)))


def _changes(draws: Array) -> Array:
    """From every other run to the next."""
    even = _finite(draws[: len(draws) // 2 * 2])
    return np.asarray(even[0::2] - even[1::2])


def _finite(values: Array) -> Array:
    return np.nan_to_num(values, posinf=0.0, neginf=0.0)


def _joined(one: Lot, other: Lot) -> Lot:
    means, draws = [], []
    for a, b in zip(one.means, other.means, strict=True):
        means.append({n: _middle(a[n], b[n]) for n in a if n in b and a[n].shape == b[n].shape})
    for a, b in zip(one.draws, other.draws, strict=True):
        both = [name for name in a if name in b and a[name].shape[1] == b[name].shape[1]]
        draws.append({name: np.concatenate([a[name], b[name]]) for name in both})
    return Lot(means, draws, {**one.left_out, **other.left_out})


def _middle(one: Array, other: Array) -> Array:
    """Integers that never changed stay integers, and are compared as such."""
    return one if not is_float(one.dtype) and identical(one, other) else np.asarray((one + other) / 2)


def _slack(tolerance: Tolerance) -> float:
    """What a spread that is wider or narrower by the error allowed does to a characteristic function."""
    if tolerance.sqnr is None and tolerance.cosine is None:
        return 0.0
    return float(0.6 * min(0.1, 10 ** (-least_sqnr(tolerance) / 20)))


def _prefixed(sample: Mapping[str, Array], kind: str) -> dict[str, Array]:
    return {name.removeprefix(kind): value for name, value in sample.items() if name.startswith(kind)}
