"""The proof that a candidate may take the place of its original: one list of stages, whoever asks for it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from pathlib import Path

from onnx_ci.errors import ModelError
from onnx_ci.inputs.graph import UseDef
from onnx_ci.model.model import Model, values_beside
from onnx_ci.model.proto import PROTOBUF_LIMIT
from onnx_ci.model.save import write_runnable
from onnx_ci.policy.schema import Rule, Tolerance
from onnx_ci.results import OVERFLOWS, Float16Range, Latency, Proof, Status, Verification
from onnx_ci.sandbox.process import stored_bytes
from onnx_ci.sandbox.runner import RunFailed, Runner
from onnx_ci.sandbox.versions import Libraries
from onnx_ci.util.advice import KEEP_IN_FLOAT32
from onnx_ci.verify.compare import ComparedOutputs
from onnx_ci.verify.float16 import float16_range
from onnx_ci.verify.fusions import Counts, compared, optimized_counts
from onnx_ci.verify.observation import observed
from onnx_ci.verify.reference import Reference
from onnx_ci.verify.score import evaluate
from onnx_ci.verify.sensitivity import Sensitivity
from onnx_ci.verify.verifier import SOME, Claim, Runtimes, Verifier, loading_over

SPARE = 4  # inputs made up for the original beyond those that are used
# What is being done in stages that may take long.
STAGES = {
    "_outputs": "running it and its original on the same inputs",
    "_further_inputs": "running further inputs",
    "_sensitivity": "seeing that damaged weights would be noticed",
}
LIGHT = 1 << 26  # bytes of a model that one thread is enough for
ALIKE = 0.9  # cosine of what was made of one model
EXACT_SQNR = 60.0  # dB; what summing in another order can cost, far below what a wrong tensor does


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A candidate as it is handed in for proof."""

    path: Path
    model: Model
    changes: Collection[str] = ()  # parts of the interface that it may change
    bitwise: bool = False  # exact by construction
    rounded: tuple[Model, Model] | None = None  # the model before and after what is not exact by construction
    foreign: bool = False  # not made from the original: another model to compare it with
    each: bool = True  # whether every changed tensor has to show by itself


@dataclass(eq=False, repr=False)
class Prover:
    """Prove candidates of one original. Its reference is found once."""

    rule: Rule
    original: Model
    runner: Runner
    scratch: Path
    _: KW_ONLY
    home: Path
    timed: bool = False  # also where the rule has no limit for that
    say: Callable[[str], None] = lambda _: None  # what is being done

    def __post_init__(self) -> None:
        libraries = Libraries(self.rule.libraries, self.home)
        # On one thread, models take less processor time and give the same on every machine.
        threads = 1 if stored_bytes(self.original.path) <= LIGHT else None
        self.runner = self.runner.using(libraries=libraries, threads=threads)
        self._nodes: dict[Path, Counts | None] = {}  # of models as onnxruntime runs them

    def prove(self, candidate: Submission) -> Proof:
        """Take a candidate through all stages, until one does not hold."""
        claim = self._claim(candidate)
        proof = Proof(accepted=True, verification=Verification(status="passed"))
        for stage in (
            *(self._outputs, self._further_inputs, self._sensitivity, self._runtimes),
            *(self._float16, self._latency, self._loading, self._score, self._fusions),
        ):
            if words := STAGES.get(stage.__name__):
                self.say(words)
            proof = stage(proof, claim, candidate)
            if proof.verification.status != "passed":
                return replace(proof, accepted=False)
        return proof

    def compare(self, other: Submission, tolerance: Tolerance) -> ComparedOutputs:
        """Compare the outputs of another model with the original's."""
        return self.verifier.compare(replace(self._claim(other), tolerance=tolerance))

    def time(self, other: Submission) -> Latency | None:
        """Time another model, whatever its outputs are; None where it does not run on the same inputs."""
        claim = self._claim(other)
        try:
            return self.verifier.with_loading(self.verifier.latency(claim), claim)
        except RunFailed:
            return None

    def resembles(self, candidate: Submission) -> bool:
        """Tell whether a model is still a form of the original, however badly it keeps to it: rounding gone
        wrong leaves far more of it than another model has."""
        claim = replace(self._claim(candidate), tolerance=Tolerance(cosine=ALIKE))
        return self.verifier.check(claim).status == "passed"

    @cached_property
    def reference(self) -> Reference:
        graph = UseDef(self.original.proto)
        return Reference(
            self.runner,
            self._runnable(self.original, self.original.path, "original.onnx"),
            self.original.proto,
            spare=SPARE,
            read=self.original.array,
            graph=graph,
            observed=self._observable(self.original, "original.onnx", graph),
            spec=self.rule.inputs,
            limits=self.rule.limits,
            root=self.home,
            stored=values_beside(self.original),
        )

    @cached_property
    def planning(self) -> Reference:
        """What plans are made on: somewhat more inputs than one candidate is first looked at with."""
        if self.rule.inputs.samples:
            return self.reference.with_made_up(SOME)
        return self.reference.on_more(SOME)

    @cached_property
    def verifier(self) -> Verifier:
        return Verifier(self.reference)

    @cached_property
    def sensitivity(self) -> Sensitivity:
        return Sensitivity(self.verifier, self.original, self.scratch)

    @cached_property
    def runtimes(self) -> Runtimes:
        return Runtimes(self.reference, self.rule.runtimes)

    @cached_property
    def float16(self) -> Float16Range | None:
        """What the original computes in float16 comes to; None where it does not."""
        return float16_range(self.reference, self.original, self.scratch)

    def _nodes_of(self, path: Path) -> Counts | None:
        if path not in self._nodes:
            self._nodes[path] = optimized_counts(self.runner, path, self.rule.limits)
        return self._nodes[path]

    def _claim(self, candidate: Submission) -> Claim:
        tolerance = self.rule.tolerance
        return Claim(
            path=self._runnable(candidate.model, candidate.path, "candidate.onnx"),
            proto=candidate.model.proto,
            observed=None if candidate.bitwise else self._observable(candidate.model, "candidate.onnx"),
            tolerance=exact_tolerance(tolerance) if candidate.bitwise else tolerance,
            allowed=candidate.changes,
            extra=values_beside(candidate.model),
        )

    def _runnable(self, model: Model, path: Path, name: str) -> Path:
        """Return a file that onnxruntime can read: under a name that is text, and past protobuf's limit with
        its weights outside."""
        if _is_text(path) and path.stat().st_size <= PROTOBUF_LIMIT:
            return path
        copy = self.scratch / "runnable" / name
        copy.parent.mkdir(exist_ok=True)
        write_runnable(model, copy)
        return copy

    def _observable(self, model: Model, name: str, graph: UseDef | None = None) -> Path | None:
        """Return a copy whose outputs tell more than the model's own; None where there is nothing to add."""
        copy = observed(model, graph)
        if copy is model:
            return None
        path = Path(tempfile.mkdtemp(prefix="observed-", dir=self.scratch)) / name
        write_runnable(copy, path)
        return path

    def _outputs(self, proof: Proof, claim: Claim, _: Submission) -> Proof:
        return replace(proof, verification=self.verifier.check(claim))

    def _further_inputs(self, proof: Proof, claim: Claim, candidate: Submission) -> Proof:
        if candidate.bitwise:
            return proof
        return replace(proof, verification=self.verifier.recheck(proof.verification, claim))

    def _sensitivity(self, proof: Proof, claim: Claim, candidate: Submission) -> Proof:
        passed, model = proof.verification, candidate.model
        if candidate.foreign:
            verification = self.sensitivity.check_pair(passed, model, claim.tolerance)
        else:
            only_whole = candidate.bitwise or not candidate.each
            rounded = None if only_whole else candidate.rounded or (self.original, model)
            verification = self.sensitivity.check(passed, model, claim.tolerance, rounded)
        return replace(proof, verification=verification)

    def _runtimes(self, proof: Proof, claim: Claim, _: Submission) -> Proof:
        if self.rule.runtimes:
            self.say("running other versions of onnxruntime")
        return replace(proof, verification=self.runtimes.check(proof.verification, claim))

    def _float16(self, proof: Proof, _: Claim, candidate: Submission) -> Proof:
        """Refuse what overflows float16 where the original does not. What is exact has the same values."""
        if candidate.bitwise:
            return proof
        after = float16_range(self.reference, candidate.model, self.scratch)
        proof = replace(proof, verification=replace(proof.verification, float16=after))
        if after is None or not after.over or (self.float16 and self.float16.over):
            return proof
        return _refused(proof, after.words, OVERFLOWS, hint=KEEP_IN_FLOAT32)

    def _latency(self, proof: Proof, claim: Claim, _: Submission) -> Proof:
        allowed = self.rule.budget.latency
        if allowed is None and not self.timed:
            return proof
        self.say("measuring latency, load time and memory")
        try:
            latency = self.verifier.latency(claim, limit=allowed)
            if allowed is None or latency.ratio <= allowed:
                return replace(proof, latency=self.verifier.with_loading(latency, claim))
        except RunFailed as error:
            if allowed is None:
                return proof
            return _refused(proof, str(error), "OCI013")
        return _refused(replace(proof, latency=latency), slowness(latency, allowed), "OCI010")

    def _loading(self, proof: Proof, claim: Claim, _: Submission) -> Proof:
        over = self.loading_over(claim.path)
        return _refused(proof, over, "OCI060") if over else proof

    def loading_over(self, path: Path) -> str:
        """What loading a model takes more than it may; empty where that is nothing."""
        budget = self.rule.budget
        return loading_over(self.runner, path, budget, self.rule.limits) if budget.loading else ""

    def _score(self, proof: Proof, _: Claim, candidate: Submission) -> Proof:
        if self.rule.evaluate is None:
            return proof
        self.say(f"computing your score, {self.rule.evaluate.metric}")
        try:
            score = evaluate(
                self.rule.evaluate,
                original=self.original.path,
                candidate=candidate.path,
                root=self.home,
                limits=self.rule.limits,
            )
        except ModelError as error:
            return _refused(proof, error.message, error.code, status="not_run", hint=error.hint)
        return _refused(proof, score.problem, "OCI016") if score.problem else proof

    def _fusions(self, proof: Proof, claim: Claim, _: Submission) -> Proof:
        # What is behind outputs is put out by both or by none: as they were run.
        pair = self.reference.original, claim.path
        if self.reference.observed and claim.observed:
            pair = self.reference.observed, claim.observed
        before, after = (self._nodes_of(path) for path in pair)
        optimized = compared(before, after) if before and after else None
        return replace(proof, verification=replace(proof.verification, optimized=optimized))


def slowness(latency: Latency, allowed: float) -> str:
    """Too slow for sure, or not shown to be fast enough in the time there is: neither is put in place."""
    how = "takes longer than" if latency.low > allowed else "could not be shown to keep to"
    return f"{how} {allowed:.0%} of the original's time: {latency.words}"


def exact_tolerance(tolerance: Tolerance) -> Tolerance:
    """An exact method has to hold far more than the rule asks for, whatever the rule asks for."""
    return replace(tolerance, sqnr=max(tolerance.sqnr or 0.0, EXACT_SQNR))


def _refused(proof: Proof, reason: str, code: str, *, status: Status = "failed", hint: str = "") -> Proof:
    refused = replace(proof.verification, status=status, reason=reason, code=code, hint=hint)
    return replace(proof, verification=refused)


def _is_text(path: Path) -> bool:
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        return False
    return True
