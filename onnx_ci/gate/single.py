"""One model without a policy: shrink it to a new file, or compare it with another."""

from __future__ import annotations

import filecmp
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_ci.errors import EnvironmentFault, ModelError, UsageError
from onnx_ci.gate.judge import about_fusions, judge
from onnx_ci.gate.subject import InPlace, Ledger, NewFile, Task
from onnx_ci.inputs.generate import FIRST, deriver_of
from onnx_ci.methods.catalogue import METHODS, Method, method
from onnx_ci.model.load import open_model, read_skeleton
from onnx_ci.model.measure import files_of, measure
from onnx_ci.model.model import Model
from onnx_ci.model.replace import data_of, is_orphan, replaceable_data
from onnx_ci.model.store import BackgroundHash
from onnx_ci.policy.schema import (
    DEFAULT_TOLERANCE,
    PLAN_SECONDS,
    Budget,
    InputSpec,
    MethodChoice,
    Rule,
    Tolerance,
)
from onnx_ci.results import Finding, Outcome, Verdict
from onnx_ci.sandbox.runner import Runner
from onnx_ci.util.files import atomic_write, scratch_folder
from onnx_ci.verify.prove import Prover

if TYPE_CHECKING:
    from onnx_ci.sandbox.runner import Runner
    from onnx_ci.verify.prove import Submission


@dataclass(frozen=True, kw_only=True)
class Made:
    """Samples that run; why the inputs are what they are; the branches that no sample takes, in words."""

    samples: Sequence[dict[str, Any]]
    reasons: dict[str, str]
    untaken: Sequence[str]


def make_samples(path: Path, spec: InputSpec) -> Made:
    rule = Rule(pattern=str(path), inputs=spec)
    with (
        open_model(path) as model,
        Runner() as runner,
        tempfile.TemporaryDirectory(prefix="onnx-ci-") as scratch,
    ):
        reference = Prover(rule, model, runner, Path(scratch), home=path.parent).reference
        own = reference.stored
        return Made(
            samples=[{k: v for k, v in sample.items() if k not in own} for sample in reference.feeds()],
            reasons=deriver_of(reference.proto_to_feed(), spec).reasons(FIRST),
            untaken=[side.words for side in reference.untaken],
        )


ENCODINGS = 60  # the first stage of methods that encode weights


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to do to one model. Without methods: the exact ones, and the encodings of weights if there is a
    budget; never those that call other libraries or only move bytes to other files."""

    source: Path
    target: Path
    methods: tuple[MethodChoice, ...] = ()
    budget: int | None = None
    tolerance: Tolerance = DEFAULT_TOLERANCE
    samples: tuple[str, ...] = ()
    dims: Mapping[str, int] = field(default_factory=dict)
    verify: bool = True
    plan_seconds: float = PLAN_SECONDS
    cache: bool = True
    runtimes: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()

    @property
    def choices(self) -> tuple[MethodChoice, ...]:
        wanted = (known for known in METHODS if known.gains == "size" and self._is_default(known))
        return self.methods or tuple(MethodChoice(name=known.name) for known in wanted)

    def _is_default(self, known: Method) -> bool:
        """Our own methods: other libraries are slow, and may not be installed."""
        encodes = not known.exact and known.stage >= ENCODINGS
        return known.bitwise or (encodes and self.budget is not None)

    @property
    def identify(self) -> bool:
        """Whether the source is hashed, so that it can be found again: if it was run, or is lost."""
        return self.verify or not all(method(choice.name).exact for choice in self.choices)


# Two exports of one network may differ in these and still be compared.
OWN_AFFAIRS = ("dims", "opset", "ir", "metadata", "producer", "functions")
COMPARED = 8  # inputs made up for one pair: with 2, one in eight real damages of a small classifier passed


def shrink_file(
    request: Request, say: Callable[[str], None] = lambda _: None, hashing: BackgroundHash | None = None
) -> Outcome:
    """Write the target only if something proven can be written, or a copy if there is nothing to gain."""
    check_target(request.source, request.target)
    root = request.source.resolve().parent
    check_dims(request.source, request.dims)
    in_place = request.target.exists() and request.target.samefile(request.source)
    task = Task(
        path=request.source,
        name=str(request.source),
        rule=_rule(request),
        root=root,
        home=home_of(request.source),
        output=InPlace(root) if in_place else NewFile(request.target),
        insists=True,
        strict=True,
        hashing=hashing,
        identify=request.identify,
        elsewhere=not in_place,
        cache=request.cache,
    )
    with _runner() if request.verify else nullcontext() as runner:
        outcome = judge(task, runner, Ledger(), say)
    if outcome.verdict == "ok" and not in_place:
        copy_model(request.source, request.target)
    return outcome


def _runner() -> Runner:
    from onnx_ci.sandbox.runner import Runner

    return Runner()


def home_of(path: Path) -> Path:
    return Path(path.resolve().anchor)


def inputs_from(samples: Iterable[str], dims: Mapping[str, int] | None = None) -> InputSpec:
    return InputSpec(samples=as_named(samples), dims=dims or {})


def as_named(files: Iterable[str]) -> tuple[str, ...]:
    """Files as named on the command line, relative to here; no repository bounds them."""
    paths = (Path(file).absolute() for file in files)
    return tuple(path.relative_to(path.anchor).as_posix() for path in paths)


def _rule(request: Request) -> Rule:
    return Rule(
        pattern=str(request.source),
        budget=Budget(size=request.budget),
        methods=request.choices,
        tolerance=request.tolerance,
        inputs=inputs_from(request.samples, request.dims),
        runtimes=request.runtimes,
        libraries=as_named(request.libraries),
        plan_seconds=request.plan_seconds,
        minimum_gain=0.0,
    )


def check_target(source: Path, target: Path) -> None:
    """Refuse what can't be written, or must not be, before any work is done."""
    if source.exists() and target.exists() and target.resolve() in _data_files(source):
        raise UsageError(f"{target} holds the weights of {source}", hint="name another file to write")
    if target.is_dir():
        raise UsageError(f"{target} is a folder", hint=f"name the file to write: {target / source.name}")
    if not target.parent.is_dir():
        raise EnvironmentFault(
            f"the folder {str(target.parent)!r} does not exist", hint=f"run: mkdir -p '{target.parent}'"
        )


def check_dims(model: Path, dims: Mapping[str, int]) -> None:
    """Refuse names of sizes that the model does not have; of a model that can't be read others tell."""
    if not dims:
        return
    from onnx_ci.inputs.graph import unknown_dims

    try:
        wrong = unknown_dims(read_skeleton(model), dims)
    except ModelError:
        return
    if wrong:
        raise UsageError(f"{model}: {wrong}", hint="for example: --dims batch=1")


def _data_files(source: Path) -> set[Path]:
    try:
        return {(source.parent / name).resolve() for name in data_of(source)}
    except ModelError:
        return set()


def copy_model(source: Path, target: Path, *, over_orphans: bool = False) -> None:
    """A copy byte for byte, external data included where it goes to another folder; if so asked, over data
    that no model there needs."""
    ours = replaceable_data(target)
    same_folder = source.resolve().parent == target.resolve().parent
    for file in [] if same_folder else files_of(source, read_skeleton(source))[1:]:
        other = target.parent / file.relative_to(source.parent)
        mine = other.relative_to(target.parent).as_posix() in ours
        mine = mine or (over_orphans and is_orphan(other, target.resolve()))
        if other.exists() and not mine and not filecmp.cmp(file, other, shallow=False):
            raise EnvironmentFault(
                f"{other} is there already with other content",
                hint="write to another folder, or remove it first",
            )
        other.parent.mkdir(parents=True, exist_ok=True)
        copy_file(file, other)
    copy_file(source, target)


def copy_file(source: Path, target: Path) -> None:
    """A file that appears whole or not at all."""
    with atomic_write(target) as temporary:
        shutil.copyfile(source, temporary)
        shutil.copymode(source, temporary)


def compare_files(
    first: Path,
    second: Path,
    *,
    tolerance: Tolerance,
    samples: tuple[str, ...] = (),
    dims: Mapping[str, int] | None = None,
    runtimes: tuple[str, ...] = (),
    libraries: tuple[str, ...] = (),
) -> Outcome:
    """The second model against the first: an outcome whose verdict is ok only within the tolerance."""
    check_dims(first, dims or {})
    rule = Rule(
        pattern=str(first),
        tolerance=tolerance,
        inputs=replace(inputs_from(samples, dims), count=COMPARED),
        runtimes=runtimes,
        libraries=as_named(libraries),
    )
    outcome = Outcome(path=str(second), verdict="unreadable", rule_pattern=str(first))
    try:
        with open_model(first) as before, open_model(second) as after:
            outcome = replace(
                outcome,
                before=measure(first, before.proto, hashing=BackgroundHash(first)),
                after=measure(second, after.proto, hashing=BackgroundHash(second)),
            )
            return _compared(outcome, before, after, rule)
    except ModelError as error:
        finding = Finding(code=error.code, severity="error", message=error.message, hint=error.hint)
        return replace(outcome, findings=(finding,))


def _compared(outcome: Outcome, before: Model, after: Model, rule: Rule) -> Outcome:
    from onnx_ci.verify.prove import Prover

    with _runner() as runner, scratch_folder() as scratch:
        prover = Prover(rule, before, runner, scratch, home=home_of(before.path), timed=True)
        proof = prover.prove(second_model(before, after))
    found = proof.verification
    if found.status == "passed":
        findings = tuple(about_fusions(outcome.path, found))
        return replace(outcome, verdict="ok", verification=found, findings=findings, latency=proof.latency)
    finding = Finding(
        code=found.code or ("OCI004" if found.status == "failed" else "OCI005"),
        severity="error",
        message=f"{outcome.path}: {found.reason}",
        hint=found.hint,
    )
    verdict: Verdict = "outputs_changed" if found.status == "failed" else "unverified"
    return replace(outcome, verdict=verdict, verification=found, findings=(finding,))


def second_model(before: Model, after: Model) -> Submission:
    """Return a model to be proven that was not made from the first."""
    from onnx_ci.verify.prove import Submission

    changes = (*OWN_AFFAIRS, "inputs") if after.beside or before.beside else OWN_AFFAIRS
    return Submission(path=after.path, model=after, changes=changes, foreign=True)
