"""Proof for one candidate: outputs, sensitivity of the check itself, latency, and the user's own score."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from onnx_ci.doubt.doubt import Doubt
from onnx_ci.errors import ModelError
from onnx_ci.model.container import Model, values_beside
from onnx_ci.model.proto import PROTOBUF_LIMIT
from onnx_ci.model.save import write_model
from onnx_ci.policy.schema import DEFAULT_TOLERANCE, InputSpec, Rule, Tolerance
from onnx_ci.shown import Latency, Proof, Verification
from onnx_ci.verify.client import RunFailed, Runner
from onnx_ci.verify.evaluate import evaluate
from onnx_ci.verify.further import SOME, Further
from onnx_ci.verify.fusions import Fusions
from onnx_ci.verify.libraries import Libraries
from onnx_ci.verify.runtimes import Runtimes
from onnx_ci.verify.verifier import Verifier

EXACT_SQNR = 60.0  # dB; what summing in another order can cost, far below what a wrong tensor does


class Prover:
    """Proves candidates of one original; its reference outputs are computed once."""

    def __init__(self, rule: Rule, original: Model, runner: Runner, scratch: Path, *, home: Path) -> None:
        self.rule = rule
        self.original = original
        self.scratch = scratch
        self.home = home
        self.runner = runner.using(libraries=Libraries(rule.libraries, home))

    def prove(
        self,
        path: Path,
        candidate: Model,
        *,
        bitwise: bool,
        changes: Collection[str],
        rounded: tuple[Model, Model] | None = None,
    ) -> Proof:
        """`rounded` is the model before and after what is not exact by construction."""
        verification = self.verified(path, candidate, bitwise=bitwise, changes=changes, rounded=rounded)
        return self._proof(path, candidate, verification)

    def prove_as_it_is(self, path: Path, candidate: Model, *, changes: Collection[str]) -> Proof:
        """Prove a model that is there already. Not tensor by tensor: which of them exact methods left out
        for good reason, only the run that made it knew."""
        verification = self.verified(path, candidate, bitwise=False, changes=changes, each=False)
        return self._proof(path, candidate, verification)

    def resembles(self, path: Path, candidate: Model, *, changes: Collection[str]) -> bool:
        """Whether a model is still a form of the original: within the tolerance that is built in, whatever
        the rule asks for today."""
        extra = values_beside(candidate)
        found = self.verifier.check(path, candidate.proto, DEFAULT_TOLERANCE, allow=changes, extra=extra)
        return found.status == "passed"

    def _proof(self, path: Path, candidate: Model, verification: Verification) -> Proof:
        if verification.status != "passed":
            return Proof(accepted=False, verification=verification)
        proof = self._scored(path, verification, values_beside(candidate))
        if not proof.accepted:
            return proof
        optimized = self.fusions.against(path)
        return replace(proof, verification=replace(proof.verification, optimized=optimized))

    def verified(
        self,
        path: Path,
        candidate: Model,
        *,
        bitwise: bool,
        changes: Collection[str],
        rounded: tuple[Model, Model] | None = None,
        each: bool = True,
    ) -> Verification:
        """What running it shows, whether that means anything, and whether it holds in every runtime."""
        tolerance = exact_tolerance(self.rule.tolerance) if bitwise else self.rule.tolerance
        extra = values_beside(candidate)
        found = self.verifier.check(path, candidate.proto, tolerance, allow=changes, extra=extra)
        if found.status == "passed" and not bitwise:
            found = self.further.check(found, path, candidate.proto, tolerance, allow=changes, extra=extra)
        if found.status == "passed":
            pair = None if bitwise or not each else rounded or (self.original, candidate)
            found = self._doubted(found, candidate, tolerance, pair)
        if found.status == "passed":
            found = self.runtimes.check(found, path, candidate.proto, tolerance, allow=changes, extra=extra)
        return found

    def feeds(self) -> Sequence[Mapping[str, Any]]:
        """The inputs that verification uses, for methods that calibrate."""
        return self.verifier.feeds()

    @cached_property
    def verifier(self) -> Verifier:
        return self._make(self.rule.inputs)

    @cached_property
    def runtimes(self) -> Runtimes:
        return Runtimes(self.verifier, self.rule.runtimes)

    @cached_property
    def fusions(self) -> Fusions:
        return Fusions(self.runner, self._runnable, self.rule.limits)

    def _make(self, spec: InputSpec, like: Verifier | None = None) -> Verifier:
        return Verifier(
            self.runner,
            self._runnable,
            self.original.proto,
            spec=spec,
            limits=self.rule.limits,
            root=self.home,
            stored=values_beside(self.original),
            like=like,
        )

    @cached_property
    def _runnable(self) -> Path:
        """The original as onnxruntime can read it: under a name that is text, and past protobuf's limit
        with its weights outside."""
        small = self.original.path.stat().st_size <= PROTOBUF_LIMIT
        if small and _is_text(self.original.path):
            return self.original.path
        path = self.scratch / "original.onnx"
        write_model(self.original, path, all_to="" if small else "original.data")
        return path

    @cached_property
    def planning(self) -> Verifier:
        """What plans are made on: somewhat more inputs than one candidate is first looked at with."""
        if self.rule.inputs.samples:
            return self.verifier
        more = replace(self.rule.inputs, count=max(SOME, self.rule.inputs.count))
        return self._make(more, self.verifier)

    @cached_property
    def further(self) -> Further:
        return Further(self.verifier)

    def _doubted(
        self,
        passed: Verification,
        candidate: Model,
        tolerance: Tolerance,
        rounded: tuple[Model, Model] | None,
    ) -> Verification:
        """The pass, if it means anything: damage to the candidate is noticed, and to every tensor that is not
        what it was."""
        found = self.doubt.as_a_whole(passed, candidate, tolerance, self.original)
        if found.status != "passed" or rounded is None:
            return found
        return self.doubt.tensor_by_tensor(found, *rounded, tolerance)

    @cached_property
    def doubt(self) -> Doubt:
        return Doubt(self.verifier, self.scratch, lambda: self.further.some)

    def _scored(self, path: Path, passed: Verification, extra: Mapping[str, Any]) -> Proof:
        allowed = self.rule.budget.latency
        if allowed is None:
            return self._evaluated(Proof(accepted=True, verification=passed), path)
        try:
            latency = self.verifier.latency(path, extra=extra, limit=allowed)
            if latency.ratio <= allowed:
                latency = self.verifier.with_loading(latency, path)
        except RunFailed as error:
            failed = replace(passed, status="failed", reason=str(error), code="OCI013")
            return Proof(accepted=False, verification=failed)
        if latency.ratio > allowed:
            reason = slowness(latency, allowed)
            failed = replace(passed, status="failed", reason=reason, code="OCI010")
            return Proof(accepted=False, verification=failed, latency=latency)
        return self._evaluated(Proof(accepted=True, verification=passed, latency=latency), path)

    def _evaluated(self, proof: Proof, path: Path) -> Proof:
        if self.rule.evaluate is None:
            return proof
        try:
            score = evaluate(
                self.rule.evaluate,
                original=self.original.path,
                candidate=path,
                root=self.home,
                limits=self.rule.limits,
            )
        except ModelError as error:
            unsure = replace(
                proof.verification, status="not_run", reason=error.message, code=error.code, hint=error.hint
            )
            return replace(proof, accepted=False, verification=unsure)
        if score.problem:
            worse = replace(proof.verification, status="failed", reason=score.problem, code="OCI016")
            return replace(proof, accepted=False, verification=worse)
        return proof


def slowness(latency: Latency, allowed: float) -> str:
    """Too slow for sure, or not shown to be fast enough in the time there is: neither is put in place."""
    how = "takes longer than" if latency.low > allowed else "could not be shown to keep to"
    return f"{how} {allowed:.0%} of the original's time: {latency.words}"


def _is_text(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def exact_tolerance(tolerance: Tolerance) -> Tolerance:
    """An exact method has to hold far more than the rule asks for, whatever the rule asks for."""
    return replace(tolerance, sqnr=max(tolerance.sqnr or 0.0, EXACT_SQNR))
