"""Inputs that run the original, found once: the user's own or made up, and the outputs they give."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx

from onnx_ci.errors import ModelError
from onnx_ci.inputs.branches import Side, both_ways, not_taken
from onnx_ci.inputs.generate import Deriver, derive_feeds, deriver_of, of_other_sizes
from onnx_ci.inputs.graph import UseDef
from onnx_ci.inputs.samples import load_samples
from onnx_ci.policy.schema import InputSpec, Limits
from onnx_ci.verify.client import Feeds, RunFailed, Runner
from onnx_ci.verify.dtypes import Array, is_float
from onnx_ci.verify.footing import Footing
from onnx_ci.verify.libraries import NAME_IT, REPLACE_IT, custom_operators, needs_library

if TYPE_CHECKING:
    from typing_extensions import Self

GIVE = "give inputs that run: inputs: {samples: [...]}, or sizes: inputs: {dims: {NAME: SIZE}}"
_HARD_FAILURES = 2  # crashes and the like before the search for inputs is given up
_MANY = 8  # samples that are asked for where some are to be of other sizes, and how many of them
_SIZES = 2


class Feeding(Footing):
    """One original with its inputs and outputs."""

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
        like: Feeding | None = None,
    ) -> None:
        """`stored` are values of inputs that belong to the model itself, kept beside it; `like` is one
        for the same original, so that its noise is measured once."""
        super().__init__(runner, original, proto, limits=limits, root=root, offset=spec.seed, like=like)
        self.spec = spec
        self.stored = stored or {}
        self._given: Sequence[Feeds] | None = None  # found elsewhere; there is nothing to search then
        self._feeds: Sequence[Feeds] = ()
        self._outputs: list[dict[str, Array]] | None = None
        self._untaken: Sequence[Side] | None = None
        self._failure: ModelError | None = None
        self.took = 0.0  # seconds to find inputs and run them

    def reference(self) -> list[dict[str, Array]]:
        """The original's outputs. The first failure is final: a second search would find the same."""
        if self._failure is not None:
            raise self._failure
        if self._outputs is None:
            began = time.monotonic()
            try:
                self._feeds, self._outputs = self._found_feeds()
                self.took = time.monotonic() - began
            except ModelError as error:
                self._failure = error
                raise
        return self._outputs

    def under(self, runner: Runner, *, samples: int | None = None) -> Self:
        """The same original and inputs, or the first of them, in another runtime."""
        other = copy(self)
        other.runner = runner
        other.like = self
        other._given = self.feeds()[:samples]
        other._feeds, other._outputs = other._given, None
        return other

    def feeds(self) -> Sequence[Feeds]:
        """The inputs that run the original."""
        self.reference()
        return self._feeds

    @property
    def untaken(self) -> Sequence[Side]:
        """Branches of Ifs that none of the inputs takes: what is in there is not verified."""
        self.reference()
        if self._untaken is None:
            graph, where = UseDef(self.proto), (self.runner, self.original)
            self._untaken = not_taken(*where, graph, self._feeds, limits=self.limits)
        return self._untaken

    def fed(self, extra: Feeds | None) -> tuple[Sequence[Feeds], set[str]]:
        feeds = [{**feeds, **extra} for feeds in self.feeds()] if extra else self.feeds()
        return feeds, {*self.stored, *(extra or {})}

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

    def _search(self, *, wide: bool = True) -> tuple[Sequence[Feeds], list[dict[str, Array]]]:
        """Try attempt after attempt until one runs, within one time limit for all of them."""
        failures: list[RunFailed] = []
        for feeds, limits in self._attempts(failures, wide=wide):
            try:
                outputs = self.runner.run(self.own, feeds, limits=limits)
            except RunFailed as error:
                failures.append(error)
            else:
                if wide and _is_lost(outputs):
                    return self._search(wide=False)
                return self._both_ways(feeds, outputs)
        hard = [error for error in failures if error.kind != "error"]
        raise _unrunnable((hard or failures)[0], "on inputs made up for it", GIVE, self._custom)

    def _both_ways(
        self, feeds: Sequence[Feeds], outputs: list[dict[str, Array]]
    ) -> tuple[Sequence[Feeds], list[dict[str, Array]]]:
        """And further samples: of other sizes, and such that take the branches which these do not."""
        deriver = deriver_of(self.asked(), self.spec)
        limits = replace(self.limits, seconds=self.limits.seconds / 4)
        feeds, outputs = self._of_other_sizes(deriver, feeds, outputs, limits)
        found = both_ways(self.runner, self.original, deriver, feeds, stored=self.stored, limits=limits)
        if not found.more:
            self._untaken = found.untaken if deriver.graph.branches else ()
            return feeds, outputs
        try:
            further = self.runner.run(self.own, found.more, limits=limits)
        except RunFailed:
            return feeds, outputs
        self._untaken = found.untaken
        return [*feeds, *found.more], [*outputs, *further]

    def _of_other_sizes(
        self, deriver: Deriver, feeds: Sequence[Feeds], outputs: list[dict[str, Array]], limits: Limits
    ) -> tuple[Sequence[Feeds], list[dict[str, Array]]]:
        """And a few of other sizes that run, where many samples are asked for."""
        wanted = len(feeds) + (_SIZES if self.spec.count >= _MANY else 0)
        for sample in of_other_sizes(deriver, feeds):
            if len(feeds) >= wanted:
                break
            try:
                found = self.runner.run(self.own, [{**sample, **self.stored}], limits=limits)
            except RunFailed as error:
                if error.kind != "error":
                    break
            else:
                feeds, outputs = [*feeds, {**sample, **self.stored}], [*outputs, *found]
        return feeds, outputs

    def _attempts(
        self, failures: Sequence[RunFailed], *, wide: bool
    ) -> Iterator[tuple[Sequence[Feeds], Limits]]:
        began = time.monotonic()
        for feeds in derive_feeds(self.asked(), self.spec, wide=wide):
            left = self.limits.seconds - (time.monotonic() - began)
            if failures and (left <= 0 or _is_hopeless(failures)):
                return
            yield [{**sample, **self.stored} for sample in feeds], replace(self.limits, seconds=left)


def _is_lost(outputs: Sequence[Mapping[str, Array]]) -> bool:
    """Whether a sample gives an output without a single finite number, which others do not."""
    lost = [{name for name, value in sample.items() if _has_no_number(value)} for sample in outputs]
    return any(names != lost[0] for names in lost)


def _has_no_number(value: Array) -> bool:
    if not isinstance(value, np.ndarray) or not value.size or not is_float(value.dtype):
        return False
    return not np.isfinite(value.astype(np.float64)).any()


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
