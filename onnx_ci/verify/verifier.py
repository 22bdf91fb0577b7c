"""Original against candidate: on the inputs found for the original, on further ones, and in the runtimes that
users have."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

import numpy as np
import onnx

from onnx_ci.errors import ModelError
from onnx_ci.inputs.sample_paths import recorded_from
from onnx_ci.model.interface import contract_breaks
from onnx_ci.policy.schema import Budget, Limits, Tolerance
from onnx_ci.results import Comparison, Latency, OutputDelta, RuntimeRun, Status, Verification
from onnx_ci.sandbox.exchange import Array, is_float, is_text
from onnx_ci.sandbox.runner import Feeds, Load, RunFailed, Runner
from onnx_ci.util.sizes import format_size
from onnx_ci.util.text import first_of
from onnx_ci.verify.compare import (
    FEW,
    ComparedOutputs,
    compare_outputs,
    equality_hint,
    outside,
    tightened,
    with_histograms,
    worse_of,
)
from onnx_ci.verify.distribution import Distribution, Draw, Unclear
from onnx_ci.verify.noise import Baked, Unmatched, excuse, refuse_strict
from onnx_ci.verify.reference import Reference

SOME, MANY = 4, 16  # further inputs: always, and where the limit is near
_SEED = 7919  # where further inputs start, counted from those of the rule
_NEAR = 0.5  # of the noise that the tolerance allows: with more than that a limit is near
_SHOWN = 3  # problems named in a reason
_LOADS = 3  # times a model is loaded to see how long that takes
_LOADING = 5.0  # seconds after which that is not done again
_FIRST = 2  # samples that are run without optimizations: slower, and what breaks there breaks at once
_SAME = 40.0  # dB; what fusing nodes can cost
_SCARCE = "OCI013"  # what went past a limit, or crashed
LONG = 5.0  # seconds by which a damaged model may be slower

Reaction = Literal["noticed", "missed", "unmoved"]  # of an output, to damage done on purpose


@dataclass(frozen=True, kw_only=True)
class Claim:
    """That a candidate is the original within a tolerance."""

    path: Path  # the file that is run
    proto: onnx.ModelProto
    tolerance: Tolerance
    observed: Path | None = None  # a copy with what is behind its outputs as further outputs
    allowed: Collection[str] = ()  # parts of the interface that may change
    extra: Feeds = field(default_factory=dict)  # inputs that the candidate has and the original has not


@dataclass(frozen=True)
class Refuting:
    """Inputs of a reference, by their numbers, on which a candidate failed."""

    reference: Reference
    numbers: tuple[int, ...]


class Verifier:
    """Check candidates against one reference."""

    def __init__(self, reference: Reference, *, few: bool = False) -> None:
        """`few` is for inputs that are some of those on which candidates are checked anyway."""
        self.reference = reference
        self.few = few
        self._distributions: dict[Tolerance, Distribution | Unclear] = {}
        self._refuting: list[int] = []

    @property
    def refuting(self) -> Refuting | None:
        """Where the last candidate failed, here or on further inputs."""
        asked = [self, *(self.__dict__[name] for name in ("some", "many") if name in self.__dict__)]
        failed = next((one for one in asked if one._refuting), None)
        return failed and Refuting(failed.reference, tuple(failed._refuting))

    def check(self, claim: Claim) -> Verification:
        """Compare interface and outputs. Never raises for what a model does."""
        breaks = contract_breaks(self.reference.proto, claim.proto, allow=claim.allowed)
        if breaks:
            return self._found("failed", "the interface changed: " + _listed(breaks))
        try:
            self.reference.refuse_empty()
            if self.reference.gross_noise is None:  # otherwise it is compared by distribution
                refuse_strict(self.reference.noise, claim.tolerance)
            compared = self.compare(claim)
        except RunFailed as error:
            failed = self._found("failed", f"the candidate could not be run: {error.message}")
            return replace(failed, code="" if error.kind == "error" else error.code)
        except Baked as error:
            return self._found("failed", str(error))
        except ModelError as error:
            return self._unsure(error)
        return self._judged(compared, claim.tolerance)

    def recheck(self, passed: Verification, claim: Claim) -> Verification:
        """Check again on inputs that had no part in it so far: some, and many where the limit is near. Where
        the user has given samples, a few that are made up have to hold too."""
        passed = _joined(passed, self.some.check(claim))
        own = bool(self.reference.spec.samples)
        if passed.status != "passed" or own or not self.reference.is_graded:
            return passed
        if is_near(passed, claim.tolerance) or self._tells_little:
            passed = _joined(passed, self.many.check(claim))
        return passed

    @property
    def _tells_little(self) -> bool:
        """Whether an output has so few numbers that a few inputs say next to nothing of its error."""
        largest: dict[str, int] = {}
        for sample in self.reference.outputs():
            for name, value in sample.items():
                if is_float(value.dtype):
                    largest[name] = max(largest.get(name, 0), value.size)
        return min(largest.values(), default=FEW) < FEW

    @cached_property
    def some(self) -> Verifier:
        """A verifier on other inputs; many at once where outputs have no distance, only equality."""
        own = bool(self.reference.spec.samples)
        return self._on(SOME if own or self.reference.is_graded else MANY, _SEED, wide=not own)

    @property
    def further_feeds(self) -> Sequence[Feeds]:
        """Other inputs than the reference's; none where the model does not run on what is made up for it."""
        try:
            return self.some.reference.feeds()
        except ModelError:
            return ()

    @cached_property
    def many(self) -> Verifier:
        return self._on(MANY, 2 * _SEED)

    def _on(self, count: int, offset: int, *, wide: bool = False) -> Verifier:
        spec = self.reference.spec
        chosen = bool(spec.samples)  # a few that stand beside the user's own have to tell much
        return Verifier(self.reference.on(count=count, seed=spec.seed + offset, wide=wide, chosen=chosen))

    def sensitivity(self, claim: Claim) -> dict[str, Reaction]:
        """Return what each output showed of damage done on purpose: "noticed" if it left the tolerance,
        "missed" if it moved and the tolerance did not see it. Raises RunFailed where the damaged model does
        not run, which shows nothing; it is not waited for long."""
        self.reference.outputs()
        limits = self.reference.limits
        limits = replace(limits, seconds=min(limits.seconds, LONG + 10 * self.reference.took))
        try:
            compared = self.compare(claim, limits)
        except Unclear:  # what the candidate was not, before it was damaged
            return dict.fromkeys(self.reference.outputs()[0], "noticed")
        reactions: dict[str, Reaction] = {}
        for delta in compared.deltas:
            moved: Reaction = "missed" if delta.name in compared.apart else "unmoved"
            reactions[delta.name] = "noticed" if delta.problem else moved
        return reactions

    def latency(self, claim: Claim, *, limit: float | None = None) -> Latency:
        """Time the candidate; `limit` is the ratio that it is to keep, if there is one."""
        reference = self.reference
        feeds, spare = reference.feeds_for(claim.extra)
        return reference.runner.time(
            reference.original, claim.path, feeds, limits=reference.limits, spare=spare, limit=limit
        )

    def with_loading(self, latency: Latency, claim: Claim) -> Latency:
        """Add what loading takes: the least of several times, since all else only ever adds."""
        reference = self.reference
        before: list[Load] = []
        after: list[Load] = []
        began = time.monotonic()
        while len(before) < _LOADS and time.monotonic() - began < _LOADING:
            for path, loads in ((reference.original, before), (claim.path, after)):
                with reference.runner.apart() as fresh:
                    loads.append(fresh.load(path, limits=reference.limits))
        return replace(
            latency,
            load_before=min(load.seconds for load in before),
            load_after=min(load.seconds for load in after),
            memory_before=_least(before),
            memory_after=_least(after),
        )

    def compare(self, claim: Claim, limits: Limits | None = None) -> ComparedOutputs:
        """Compare outputs one by one, with random nodes seeded alike, or by their distribution over many
        runs. Raises RunFailed for the candidate, Unclear where no comparison would mean anything."""
        limits = limits or self.reference.limits
        one_by_one = None
        if self.reference.gross_noise is None:
            one_by_one = self._one_by_one(claim, limits)
        if one_by_one is None:
            return self._by_distribution(claim, limits)
        thrown = self._thrown(one_by_one)
        if not thrown:
            return one_by_one
        kept = {delta.name: delta for delta in one_by_one.deltas if delta.name not in thrown}
        other = self._by_distribution(claim, limits)
        deltas = [kept.get(delta.name, delta) for delta in other.deltas]
        return replace(other, deltas=deltas, apart=(one_by_one.apart - thrown) | (other.apart - kept.keys()))

    def _thrown(self, compared: ComparedOutputs) -> set[str]:
        """The outputs beyond the tolerance, if all of them are whole numbers in a random model: of a coin,
        the least rounding turns one throw or another, and how often it falls on which side is what counts."""
        failing = {delta.name for delta in compared.deltas if delta.problem}
        outputs = self.reference.outputs()
        values = [sample[name] for sample in outputs for name in failing if name in sample]
        return failing if compared.method == "seeded" and all(map(_is_whole, values)) else set()

    def _one_by_one(self, claim: Claim, limits: Limits) -> ComparedOutputs | None:
        """None where random nodes are others, or may be, and that shows."""
        reference = self.reference
        feeds, spare = reference.feeds_for(claim.extra)
        method: Comparison = "seeded" if reference.seeding else "plain"
        model = (reference.observed and claim.observed) or claim.path
        certain = True
        try:
            with self._seeded(model) as (path, certain):
                outputs = reference.runner.run(path, feeds, limits=limits, spare=spare, keep=reference.steady)
        except Unmatched:
            if reference.random_shows:
                return None
            method = "plain"
            outputs = reference.runner.run(model, feeds, limits=limits, spare=spare)
        originals = reference.outputs()
        with reference.runner.meter.timing("comparing"):
            deltas = compare_outputs(
                originals,
                outputs,
                claim.tolerance,
                batched=reference.batched,
                together=reference.is_made_up,
                few=self.few,
            )
            deltas = with_histograms(deltas, originals, outputs)
        if not certain and any(delta.problem for delta in deltas):
            return None
        apart = frozenset(delta.name for delta in deltas if not delta.exact)
        return ComparedOutputs(method, deltas, apart)

    @contextmanager
    def _seeded(self, model: Path) -> Iterator[tuple[Path, bool]]:
        """Give a model the seeds of the original's nodes; whether it is certain which is which."""
        reference = self.reference
        if not reference.seeding:
            yield model, True
            return
        folder = reference.runner.folder()
        try:
            try:
                certain = reference.seeding.write(model, folder / "seeded.onnx", reference.root)
            except ModelError as error:
                raise RunFailed("error", error.message, stage="load") from None
            yield folder / "seeded.onnx", certain
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _by_distribution(self, claim: Claim, limits: Limits) -> ComparedOutputs:
        if claim.tolerance not in self._distributions:
            self._distributions[claim.tolerance] = self._distribution(claim.tolerance)
        distribution = self._distributions[claim.tolerance]
        if isinstance(distribution, Unclear):
            raise distribution
        return distribution.compare(self._repeated(claim.path, limits, claim.extra))

    def _distribution(self, tolerance: Tolerance) -> Distribution | Unclear:
        reference = self.reference
        try:
            return Distribution(self._repeated(reference.original, reference.limits), tolerance)
        except Unclear as error:
            return error
        except RunFailed as error:
            return Unclear(f"its outputs are random, and many runs of it failed: {error.message}")

    def _repeated(self, model: Path, limits: Limits, extra: Feeds | None = None) -> Draw:
        feeds, spare = self.reference.feeds_for(extra)
        return partial(self.reference.runner.draw, model, feeds, limits=limits, spare=spare)

    def _judged(self, compared: ComparedOutputs, tolerance: Tolerance) -> Verification:
        deltas, noise = tuple(compared.deltas), self.reference.noise
        failed = {delta.worst_input for delta in deltas if delta.problem}
        self._refuting = [number for number in range(self.reference.sample_count) if number in failed]
        problems = [_problem(delta, len(self.reference.feeds())) for delta in deltas if delta.problem]
        verification = self._found("failed" if problems else "passed", _listed(problems))
        if problems and compared.method != "distribution":
            excused = excuse(deltas, noise, tolerance)
            if excused is None:
                verification = replace(verification, hint=equality_hint(deltas, self.reference.outputs()[0]))
            else:
                verification = self._unsure(excused)
        return replace(verification, outputs=deltas, method=compared.method, noise=noise)

    def _unsure(self, error: ModelError) -> Verification:
        return replace(self._found("not_run", error.message), code=error.code, hint=error.hint)

    def _found(self, status: Status, reason: str) -> Verification:
        return Verification(
            status=status,
            reason=reason,
            inputs="samples" if self.reference.spec.samples else "generated",
            samples=self.reference.sample_count,
            recorded=recorded_from(self.reference.spec.samples),
            asleep=self.reference.asleep,
        )


def _problem(delta: OutputDelta, count: int) -> str:
    """What is wrong with an output, on which of the inputs, and how far that is in the output's own units."""
    where = ""
    if "limit" in delta.breaches and delta.worst_input is not None and count > 1:
        where = f" (worst on input {delta.worst_input + 1} of {count}; it moved by up to {delta.max_abs:.3g})"
    return f"output {delta.name!r}: {delta.problem}{where}"


def is_near(passed: Verification, tolerance: Tolerance) -> bool:
    """Whether an output came so close to the limit that other inputs may well be beyond it."""
    room = tightened(tolerance, _NEAR)
    return any(any(outside(delta, room)) for delta in passed.outputs)


def _joined(passed: Verification, further: Verification) -> Verification:
    """What passed, and what was found on further inputs, if they could be run."""
    if further.status == "not_run":
        return passed
    own = passed.inputs == "samples"
    where = "inputs made up for it" if own else "further inputs"
    return replace(
        further,
        reason=f"on {where}, {further.reason}" if further.reason else "",
        outputs=worse_of(passed.outputs, further.outputs),
        inputs=passed.inputs,
        recorded=passed.recorded,
        asleep=passed.asleep,
        samples=passed.samples if own else passed.samples + further.samples,
        made_up=further.samples if own else 0,
    )


def _is_whole(values: Array) -> bool:
    return not is_text(values.dtype) and bool(np.array_equal(values, np.round(values)))


def loading_over(runner: Runner, path: Path, budget: Budget, limits: Limits) -> str:
    """What loading takes more than a budget allows, in words. The least of several times counts, so the
    first that is within it is enough."""
    seconds, memory = budget.load_seconds or math.inf, budget.load_memory or math.inf
    loads: list[Load] = []
    for _ in range(_LOADS):
        try:
            with runner.apart() as fresh:
                loads.append(fresh.load(path, limits=limits))
        except RunFailed as error:
            return f"what loading takes could not be measured: {error}"
        took, least = min(load.seconds for load in loads), _least(loads)
        if least is None and budget.load_memory:
            return "the memory that loading takes can't be measured on this system"
        if took <= seconds and (least or 0) <= memory:
            return ""
    if took > seconds:
        return f"takes {took:.2f} s to load, more than its load_seconds of {seconds:g}"
    needs = format_size(least or 0)
    return f"takes {needs} of memory to load, more than its load_memory of {format_size(int(memory))}"


def _least(loads: Sequence[Load]) -> int | None:
    return min((load.memory for load in loads if load.memory is not None), default=None)


def _listed(items: Sequence[str]) -> str:
    return first_of(items, _SHOWN, separator="; ", last="; and ")


@dataclass(frozen=True)
class RuntimeSetting:
    """A version of onnxruntime, with or without optimizations. With them, it is one that the user named."""

    version: str
    optimized: bool
    verifier: Verifier


class Runtimes:
    """Check candidates of one original in every runtime that users have: without optimizations, and in other
    versions of onnxruntime. What the original does there is computed once."""

    def __init__(self, reference: Reference, versions: Sequence[str] = ()) -> None:
        self.reference = reference
        self.versions = tuple(dict.fromkeys(versions))

    def check(self, passed: Verification, claim: Claim) -> Verification:
        """Check what held here, under default optimizations, under each other setting."""
        runs = [_summary(passed, self.reference.runner.version, optimized=True)]
        problem = self._misrepresented(claim)
        if problem:
            return replace(passed, status="failed", reason=problem)
        for setting in self.settings:
            result = setting.verifier.check(claim)
            if result.status == "failed" and result.code == _SCARCE:
                # The worker keeps sessions, and those of other settings take room as well.
                with setting.verifier.reference.runner.apart() as fresh:
                    alone = self.reference.under(fresh, samples=setting.verifier.reference.sample_count)
                    result = Verifier(alone, few=setting.verifier.few).check(claim)
            runs.append(_summary(result, setting.version, optimized=setting.optimized))
            if result.status == "failed":
                return replace(result, reason=f"in {runs[-1].setting}: {result.reason}", runtimes=tuple(runs))
            if result.status == "not_run" and setting.optimized:
                # The original itself does not run there: nobody can tell what the candidate does.
                version = setting.version
                return replace(
                    result,
                    reason=f"nothing is known of onnxruntime {version}, which can't run the original:"
                    f" {result.reason}",
                    hint=f"leave {version} out of runtimes, or export the model so that it runs there",
                    code="OCI005",
                    runtimes=tuple(runs),
                )
        return replace(passed, runtimes=tuple(runs))

    def _misrepresented(self, claim: Claim) -> str:
        """Return what is wrong if the file itself computes otherwise than the copy that was run for it, in
        which onnxruntime can't fuse the last nodes."""
        if claim.observed is None or self.reference.observed is None or self.reference.seeding:
            return ""
        feeds, spare = self.reference.feeds_for(claim.extra, self.reference.feeds()[:1])
        limits = self.reference.limits
        try:
            run = self.reference.runner.run
            steady = self.reference.steady
            copied = run(claim.observed, feeds, limits=limits, spare=spare, keep=steady)
            itself = run(claim.path, feeds, limits=limits, spare=spare, keep=steady)
        except RunFailed as error:
            return f"the candidate could not be run: {error.message}"
        deltas = compare_outputs(copied, itself, Tolerance(sqnr=_SAME))
        wrong = [delta for delta in deltas if delta.breaches and delta.breaches != ("unequal",)]
        return _listed([f"output {delta.name!r} of the file itself: {delta.problem}" for delta in wrong])

    @cached_property
    def settings(self) -> list[RuntimeSetting]:
        settings = [self._bare(self.reference.runner)]
        for wanted in self.versions:
            other = self.reference.runner.of_version(wanted)
            if other is None:
                continue  # the version that is run anyway
            default = Verifier(self.reference.under(other))
            settings.append(RuntimeSetting(other.version, True, default))
            settings.append(self._bare(other))
        return settings

    def _bare(self, runner: Runner) -> RuntimeSetting:
        reference = self.reference.under(runner.using(optimize=False), samples=_FIRST)
        return RuntimeSetting(runner.version, False, Verifier(reference, few=True))


def _summary(result: Verification, version: str, *, optimized: bool) -> RuntimeRun:
    return RuntimeRun(
        version=version,
        optimizations="default" if optimized else "disabled",
        status=result.status,
        samples=result.samples,
        reason=result.reason,
        max_abs=max((output.max_abs for output in result.outputs), default=None),
        cosine=min((output.cosine for output in result.outputs), default=None),
        sqnr=min((output.sqnr for output in result.outputs), default=None),
    )
