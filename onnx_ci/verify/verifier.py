"""Original against candidate: find inputs that run, keep the reference outputs, compare."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx

from onnx_ci.errors import ModelError
from onnx_ci.policy.schema import InputSpec, Limits, Tolerance
from onnx_ci.results import Latency, OutputDelta, Verification
from onnx_ci.verify.branches import Side, both_ways, not_taken
from onnx_ci.verify.client import Feeds, Load, RunFailed, Runner
from onnx_ci.verify.compare import compare_outputs, same_outputs
from onnx_ci.verify.contract import contract_breaks
from onnx_ci.verify.dtypes import Array, is_float
from onnx_ci.verify.inputs import derive_feeds, deriver_of
from onnx_ci.verify.randomness import random_nodes
from onnx_ci.verify.samples import load_samples
from onnx_ci.verify.wiring import Wiring

_GIVE = "give inputs that run: inputs: {samples: [...]}, or sizes: inputs: {dims: {NAME: SIZE}}"
_HARD_FAILURES = 2  # crashes and the like before the search for inputs is given up
_SHOWN = 3  # problems named in a reason
_LOADS = 3  # times a model is loaded to see how long that takes
_LOADING = 5.0  # seconds after which that is not done again


class Verifier:
    """Checks candidates of one original. Its inputs are searched and its outputs computed once."""

    def __init__(
        self,
        runner: Runner,
        original: Path,
        proto: onnx.ModelProto,
        *,
        spec: InputSpec,
        limits: Limits,
        root: Path,
        stored: Feeds | None = None,
    ) -> None:
        """`stored` are values of inputs that belong to the model itself, kept beside it."""
        self.runner = runner
        self.original = original
        self.proto = proto
        self.spec = spec
        self.limits = limits
        self.root = root
        self.stored = stored or {}
        self._feeds: Sequence[Feeds] = ()
        self._outputs: list[dict[str, Array]] | None = None
        self._untaken: Sequence[Side] | None = None
        self._failure: ModelError | None = None

    def reference(self) -> list[dict[str, Array]]:
        """The original's outputs. The first failure is final: a second search would find the same."""
        if self._failure is not None:
            raise self._failure
        if self._outputs is None:
            try:
                self._feeds, self._outputs = self._from_samples() if self.spec.samples else self._search()
            except ModelError as error:
                self._failure = error
                raise
        return self._outputs

    def check(
        self,
        candidate: Path,
        proto: onnx.ModelProto,
        tolerance: Tolerance,
        *,
        allow: Collection[str] = (),
        extra: Feeds | None = None,
    ) -> Verification:
        """Never raises for what a model does; `allow` is for methods that change the interface on purpose,
        `extra` for the inputs that the candidate has and the original has not."""
        breaks = contract_breaks(self.proto, proto, allow=allow)
        if breaks:
            return self._found("failed", "the interface changed: " + _listed(breaks))
        try:
            reference = self.usable_reference()
        except ModelError as error:
            return replace(self._found("not_run", error.message), code=error.code, hint=error.hint)
        try:
            outputs = self._run(candidate, extra)
        except RunFailed as error:
            failed = self._found("failed", f"the candidate could not be run: {error.message}")
            return replace(failed, code="" if error.kind == "error" else error.code)
        return self._judged(compare_outputs(reference, outputs, tolerance))

    def sensitivity(
        self, damaged: Path, tolerance: Tolerance, *, extra: Feeds | None = None
    ) -> dict[str, str] | None:
        """What each output showed when the weights were damaged on purpose: "noticed" if it left the
        tolerance, "missed" if it moved and the tolerance did not see it, "unmoved" if it did not move."""
        try:
            self.reference()
            outputs = self._run(damaged, extra)
        except RunFailed:
            return None
        deltas = compare_outputs(self.reference(), outputs, tolerance)
        return {
            delta.name: "noticed" if delta.problem else "unmoved" if delta.exact else "missed"
            for delta in deltas
        }

    def latency(self, candidate: Path, *, extra: Feeds | None = None, limit: float | None = None) -> Latency:
        """How long the candidate takes; `limit` is the ratio that it is to keep, if there is one."""
        self.reference()
        feeds, spare = self._with(extra)
        return self.runner.time(self.original, candidate, feeds, limits=self.limits, spare=spare, limit=limit)

    def with_loading(self, latency: Latency, candidate: Path) -> Latency:
        """The same, and what loading takes: the least of several times, since all else only ever adds."""
        before: list[Load] = []
        after: list[Load] = []
        began = time.monotonic()
        while len(before) < _LOADS and time.monotonic() - began < _LOADING:
            for path, found in ((self.original, before), (candidate, after)):
                with Runner() as fresh:
                    found.append(fresh.load(path, limits=self.limits))
        return replace(
            latency,
            load_before=min(load.seconds for load in before),
            load_after=min(load.seconds for load in after),
            memory_before=_least(before),
            memory_after=_least(after),
        )

    @property
    def is_graded(self) -> bool:
        """Whether any output is a float: what is not is equal or wrong, and there is nothing in between."""
        return any(is_float(array.dtype) for outputs in self.reference() for array in outputs.values())

    def feeds(self) -> Sequence[Feeds]:
        """The inputs that run the original."""
        self.reference()
        return self._feeds

    @property
    def untaken(self) -> Sequence[Side]:
        """Branches of Ifs that none of the inputs takes: what is in there is not verified."""
        self.reference()
        if self._untaken is None:
            wiring, where = Wiring(self.proto), (self.runner, self.original)
            self._untaken = not_taken(*where, wiring, self._feeds, limits=self.limits)
        return self._untaken

    def _run(self, candidate: Path, extra: Feeds | None) -> list[dict[str, Array]]:
        feeds, spare = self._with(extra)
        return self.runner.run(candidate, feeds, limits=self.limits, spare=spare)

    def _with(self, extra: Feeds | None) -> tuple[Sequence[Feeds], set[str]]:
        """Feeds for either model, and the names of those that only one of them may ask for."""
        feeds = [{**feeds, **extra} for feeds in self._feeds] if extra else self._feeds
        return feeds, {*self.stored, *(extra or {})}

    def usable_reference(self) -> list[dict[str, Array]]:
        """The reference, if a comparison with it would mean anything."""
        reference = self.reference()
        if self._noise:
            raise ModelError(
                f"its outputs differ from run to run: {_listed(self._noise)}",
                hint="give those nodes a `seed` attribute, or turn the noise off if an input scales it:"
                " inputs: {ranges: {NAME: [0, 0]}}",
                code="OCI005",
            )
        if not any(_is_evidence(array) for outputs in reference for array in outputs.values()):
            raise ModelError(
                "every output of the original is empty or NaN, so a comparison shows nothing",
                hint=_GIVE,
                code="OCI005",
            )
        return reference

    @cached_property
    def _noise(self) -> list[str]:
        """The random nodes that show: noise that an input scales to nothing does no harm. Two sessions
        of one process draw the same numbers, two runs of one session do not."""
        nodes = random_nodes(self.proto)
        if not nodes:
            return []
        try:
            outputs = self.runner.run(self.original, [*self._feeds, *self._feeds], limits=self.limits)
        except RunFailed:
            return nodes
        count = len(self._feeds)
        return [] if same_outputs(outputs[:count], outputs[count:]) else nodes

    def _from_samples(self) -> tuple[Sequence[Feeds], list[dict[str, Array]]]:
        given = load_samples(self.spec.samples, self.root, self.asked())
        feeds = [{**sample, **self.stored} for sample in given]
        try:
            return feeds, self.runner.run(self.original, feeds, limits=self.limits)
        except RunFailed as error:
            raise _unrunnable(error, "on the samples given", "check inputs.samples") from None

    def asked(self) -> onnx.ModelProto:
        """The model without the inputs that come with it: no sample has to hold them."""
        if not self.stored:
            return self.proto
        copy = onnx.ModelProto()
        copy.CopyFrom(self.proto)
        del copy.graph.input[:]
        copy.graph.input.extend(v for v in self.proto.graph.input if v.name not in self.stored)
        return copy

    def _search(self) -> tuple[Sequence[Feeds], list[dict[str, Array]]]:
        """Try attempt after attempt until one runs, within one time limit for all of them."""
        failures: list[RunFailed] = []
        for feeds, limits in self._attempts(failures):
            try:
                outputs = self.runner.run(self.original, feeds, limits=limits)
            except RunFailed as error:
                failures.append(error)
            else:
                return self._both_ways(feeds, outputs)
        hard = [error for error in failures if error.kind != "error"]
        raise _unrunnable((hard or failures)[0], "on inputs made up for it", _GIVE)

    def _both_ways(
        self, feeds: Sequence[Feeds], outputs: list[dict[str, Array]]
    ) -> tuple[Sequence[Feeds], list[dict[str, Array]]]:
        """And further samples that take the branches which these do not."""
        deriver = deriver_of(self.asked(), self.spec)
        limits = replace(self.limits, seconds=self.limits.seconds / 4)
        found = both_ways(self.runner, self.original, deriver, feeds, stored=self.stored, limits=limits)
        if not found.more:
            self._untaken = found.untaken if deriver.wiring.branches else ()
            return feeds, outputs
        try:
            further = self.runner.run(self.original, found.more, limits=limits)
        except RunFailed:
            return feeds, outputs
        self._untaken = found.untaken
        return [*feeds, *found.more], [*outputs, *further]

    def _attempts(self, failures: Sequence[RunFailed]) -> Iterator[tuple[Sequence[Feeds], Limits]]:
        began = time.monotonic()
        for feeds in derive_feeds(self.asked(), self.spec):
            left = self.limits.seconds - (time.monotonic() - began)
            if failures and (left <= 0 or _is_hopeless(failures)):
                return
            yield [{**sample, **self.stored} for sample in feeds], replace(self.limits, seconds=left)

    def _judged(self, outputs: tuple[OutputDelta, ...]) -> Verification:
        problems = [f"output {delta.name!r}: {delta.problem}" for delta in outputs if delta.problem]
        found = self._found("failed" if problems else "passed", _listed(problems))
        return replace(found, outputs=outputs)

    def _found(self, status: str, reason: str) -> Verification:
        source = "samples" if self.spec.samples else "generated"
        return Verification(status=status, reason=reason, inputs=source, samples=len(self._feeds))


def _least(loads: Sequence[Load]) -> int | None:
    return min((load.memory for load in loads if load.memory is not None), default=None)


def _is_hopeless(failures: Sequence[RunFailed]) -> bool:
    """No inputs help a model that can't be loaded, and one that hangs or crashes is not tried for ever."""
    hard = sum(error.kind in ("crash", "memory") for error in failures)
    last = failures[-1]
    return last.stage == "load" or last.kind == "timeout" or hard >= _HARD_FAILURES


def _unrunnable(error: RunFailed, on: str, hint: str) -> ModelError:
    if error.stage == "load":
        message, hint = f"onnxruntime can't load it: {error.message}", "check the model with onnx.checker"
    else:
        message = f"it could not be run {on}: {error.message}"
        if error.kind in ("timeout", "memory"):
            hint = "give it more room: limits: {seconds: ..., memory: ...}; or " + hint
    return ModelError(message, hint=hint, code=error.code)


def _is_evidence(array: Array) -> bool:
    if array.size == 0:
        return False
    return not is_float(array.dtype) or not bool(np.isnan(array).all())


def _listed(items: Sequence[str]) -> str:
    more = len(items) - _SHOWN
    return "; ".join(items[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
