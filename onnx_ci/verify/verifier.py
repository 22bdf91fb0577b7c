"""Original against candidate, on the inputs that were found for the original."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx

from onnx_ci.errors import ModelError
from onnx_ci.policy.schema import Tolerance
from onnx_ci.shown import Latency, Verification
from onnx_ci.verify.client import Feeds, Load, RunFailed
from onnx_ci.verify.contract import contract_breaks
from onnx_ci.verify.distribution import Unclear
from onnx_ci.verify.dtypes import Array, is_float
from onnx_ci.verify.evidence import is_graded
from onnx_ci.verify.feeding import GIVE, Feeding
from onnx_ci.verify.footing import Compared
from onnx_ci.verify.integers import way_out
from onnx_ci.verify.noise import Noisy, excused, refuse_strict, unexplained
from onnx_ci.verify.seeding import Baked

_SHOWN = 3  # problems named in a reason
_LOADS = 3  # times a model is loaded to see how long that takes
_LOADING = 5.0  # seconds after which that is not done again


class Verifier(Feeding):
    """Checks candidates of one original."""

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

    def usable_reference(self) -> list[dict[str, Array]]:
        """The reference, if a comparison with it, output by output, would mean anything."""
        self._refuse_empty()
        self.refuse_gross()
        return self.reference()

    def _refuse_empty(self) -> None:
        if not any(_is_evidence(array) for outputs in self.reference() for array in outputs.values()):
            raise ModelError(
                "every output of the original is empty or NaN, so a comparison shows nothing",
                hint=GIVE,
                code="OCI005",
            )

    def _refuse_noise(self, tolerance: Tolerance) -> None:
        """What runs of the original have in common is compared; a tolerance can't ask for more."""
        try:
            self.refuse_gross()
        except Noisy:
            return  # compared by distribution
        refuse_strict(self.noise, tolerance)

    def _judged(self, compared: Compared, tolerance: Tolerance) -> Verification:
        outputs = compared.deltas
        problems = [f"output {delta.name!r}: {delta.problem}" for delta in outputs if delta.problem]
        found = self._found("failed" if problems else "passed", _listed(problems))
        if problems and compared.method != "distribution":
            found = replace(found, hint=way_out(outputs, self.reference()[0]))
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


def _is_evidence(array: Array) -> bool:
    if array.size == 0:
        return False
    return not is_float(array.dtype) or not bool(np.isnan(array).all())


def _listed(items: Sequence[str]) -> str:
    more = len(items) - _SHOWN
    return "; ".join(items[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
