"""Original against candidate: find inputs that run, keep the reference outputs, compare."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx

from onnx_ci.errors import ModelError
from onnx_ci.policy.schema import InputSpec, Limits, Tolerance
from onnx_ci.results import Latency, Verification
from onnx_ci.verify.branches import Side, both_ways, not_taken
from onnx_ci.verify.client import Feeds, Load, RunFailed, Runner
from onnx_ci.verify.contract import contract_breaks
from onnx_ci.verify.distribution import Unclear
from onnx_ci.verify.dtypes import Array, is_float
from onnx_ci.verify.evidence import is_graded
from onnx_ci.verify.footing import Compared, Footing
from onnx_ci.verify.inputs import derive_feeds, deriver_of
from onnx_ci.verify.libraries import NAME_IT, REPLACE_IT, custom_operators, needs_library
from onnx_ci.verify.noise import Noisy, excused, refuse_strict, unexplained
from onnx_ci.verify.samples import load_samples
from onnx_ci.verify.seeding import Baked
from onnx_ci.verify.wiring import Wiring

_GIVE = "give inputs that run: inputs: {samples: [...]}, or sizes: inputs: {dims: {NAME: SIZE}}"
_HARD_FAILURES = 2  # crashes and the like before the search for inputs is given up
_SHOWN = 3  # problems named in a reason
_LOADS = 3  # times a model is loaded to see how long that takes
_LOADING = 5.0  # seconds after which that is not done again


class Verifier(Footing):
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
        like: Verifier | None = None,
    ) -> None:
        """`stored` are values of inputs that belong to the model itself, kept beside it; `like` is a
        verifier for the same original, so that its noise is measured once."""
        super().__init__(runner, original, proto, limits=limits, root=root, offset=spec.seed, like=like)
        self.spec = spec
        self.stored = stored or {}
        self._given: Sequence[Feeds] | None = None  # found elsewhere; there is nothing to search then
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
                self._feeds, self._outputs = self._found_feeds()
            except ModelError as error:
                self._failure = error
                raise
        return self._outputs

    def under(self, runner: Runner, *, samples: int | None = None) -> Verifier:
        """The same original and inputs, or the first of them, in another runtime."""
        other = copy(self)
        other.runner = runner
        other.like = self
        other._given = self.feeds()[:samples]
        other._feeds, other._outputs = other._given, None
        return other

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
            self._refuse_empty()
            self._refuse_noise(tolerance)
            compared = self.compared(candidate, tolerance, extra)
        except RunFailed as error:
            failed = self._found("failed", f"the candidate could not be run: {error.message}")
            return replace(failed, code="" if error.kind == "error" else error.code)
        except Baked as error:
            return self._found("failed", str(error))
        except ModelError as error:
            return self._unsure(error)
        return self._judged(compared, tolerance)

    def sensitivity(
        self, damaged: Path, tolerance: Tolerance, *, extra: Feeds | None = None
    ) -> dict[str, str]:
        """What each output showed when the weights were damaged on purpose: "noticed" if it left the
        tolerance, "missed" if it moved and the tolerance did not see it, "unmoved" if it did not move.
        A RunFailed where the damaged model does not run: that shows nothing."""
        try:
            compared = self.compared(damaged, tolerance, extra)
        except Unclear:  # what the candidate was not, before it was damaged
            return dict.fromkeys(self.reference()[0], "noticed")
        return {
            told.delta.name: "noticed" if told.delta.problem else "missed" if told.apart else "unmoved"
            for told in compared.told
        }

    def latency(self, candidate: Path, *, extra: Feeds | None = None, limit: float | None = None) -> Latency:
        """How long the candidate takes; `limit` is the ratio that it is to keep, if there is one."""
        self.reference()
        feeds, spare = self.fed(extra)
        return self.runner.time(self.original, candidate, feeds, limits=self.limits, spare=spare, limit=limit)

    def with_loading(self, latency: Latency, candidate: Path) -> Latency:
        """The same, and what loading takes: the least of several times, since all else only ever adds."""
        before: list[Load] = []
        after: list[Load] = []
        began = time.monotonic()
        while len(before) < _LOADS and time.monotonic() - began < _LOADING:
            for path, found in ((self.original, before), (candidate, after)):
                with self.runner.apart() as fresh:
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
        """Whether any output has values in between: what has not is equal or wrong, however near."""
        return is_graded(self.reference())

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

    def fed(self, extra: Feeds | None) -> tuple[Sequence[Feeds], set[str]]:
        feeds = [{**feeds, **extra} for feeds in self.feeds()] if extra else self.feeds()
        return feeds, {*self.stored, *(extra or {})}

    def usable_reference(self) -> list[dict[str, Array]]:
        """The reference, if a comparison with it, output by output, would mean anything."""
        self._refuse_empty()
        self.refuse_gross()
        return self.reference()

    def _refuse_empty(self) -> None:
        if not any(_is_evidence(array) for outputs in self.reference() for array in outputs.values()):
            raise ModelError(
                "every output of the original is empty or NaN, so a comparison shows nothing",
                hint=_GIVE,
                code="OCI005",
            )

    def _refuse_noise(self, tolerance: Tolerance) -> None:
        """What runs of the original have in common is compared; a tolerance can't ask for more."""
        try:
            self.refuse_gross()
        except Noisy:
            return  # compared by distribution
        refuse_strict(self.noise, tolerance)

    def _found_feeds(self) -> tuple[Sequence[Feeds], list[dict[str, Array]]]:
        if self._given is None:
            return self._from_samples() if self.spec.samples else self._search()
        try:
            return self._given, self.runner.run(self.own, self._given, limits=self.limits)
        except RunFailed as error:
            raise _unrunnable(error, "there", "", self._custom) from None

    @property
    def _custom(self) -> list[str]:
        return [] if self.runner.libraries.names else custom_operators(self.proto)

    def _from_samples(self) -> tuple[Sequence[Feeds], list[dict[str, Array]]]:
        given = load_samples(self.spec.samples, self.root, self.asked())
        feeds = [{**sample, **self.stored} for sample in given]
        try:
            return feeds, self.runner.run(self.own, feeds, limits=self.limits)
        except RunFailed as error:
            raise _unrunnable(error, "on the samples given", "check inputs.samples", self._custom) from None

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
                outputs = self.runner.run(self.own, feeds, limits=limits)
            except RunFailed as error:
                failures.append(error)
            else:
                return self._both_ways(feeds, outputs)
        hard = [error for error in failures if error.kind != "error"]
        raise _unrunnable((hard or failures)[0], "on inputs made up for it", _GIVE, self._custom)

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
            further = self.runner.run(self.own, found.more, limits=limits)
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

    def _judged(self, compared: Compared, tolerance: Tolerance) -> Verification:
        outputs = compared.deltas
        problems = [f"output {delta.name!r}: {delta.problem}" for delta in outputs if delta.problem]
        found = self._found("failed" if problems else "passed", _listed(problems))
        if problems and compared.method != "distribution" and not unexplained(outputs, self.noise, tolerance):
            found = self._unsure(excused(outputs, self.noise, tolerance))
        return replace(found, outputs=outputs, method=compared.method, noise=self.noise)

    def _unsure(self, error: ModelError) -> Verification:
        return replace(self._found("not_run", error.message), code=error.code, hint=error.hint)

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


def _unrunnable(error: RunFailed, on: str, hint: str, custom: Sequence[str] = ()) -> ModelError:
    """`custom` are operators that nobody was asked for."""
    if error.stage == "library":
        return ModelError(error.message, hint=REPLACE_IT, code=error.code)
    if error.stage == "load":
        if custom:
            return ModelError(needs_library(custom), hint=NAME_IT, code=error.code)
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
